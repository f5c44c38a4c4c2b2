import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const worker = process.env["PERSONAPLEX_HTTP"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  base: "./",
  build: { target: "es2022", chunkSizeWarningLimit: 800 },
  // `npm run dev` serves the page itself and passes the worker's endpoints through.
  server: { proxy: { "/api": worker, "/ready": worker, "/v1": worker } },
  test: { environment: "node", include: ["tests/**/*.test.{ts,tsx}"] },
});
