// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { App } from "../src/App";
import { Call } from "../src/call";
import { KeyForm } from "../src/components/KeyForm";
import { apiKey } from "../src/key";

beforeEach(() => {
  vi.stubGlobal("fetch", () =>
    Promise.resolve(new Response(JSON.stringify({ model: { name: "tiny", notice: "babble" } }))),
  );
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it("offers to connect and says what the model is", async () => {
  render(<App call={new Call()} />);
  expect(screen.getByRole("button", { name: "Connect" })).toBeDefined();
  expect(await screen.findByText("babble")).toBeDefined();
});

it("says what is wrong where the page may not use a microphone", async () => {
  vi.stubGlobal("isSecureContext", false);
  render(<App call={new Call()} />);
  fireEvent.click(screen.getByRole("button", { name: "Connect" }));
  const alert = await screen.findByRole("alert");
  expect(alert.getAttribute("data-code")).toBe("insecure-page");
  expect(screen.getByRole("button", { name: "Connect again" })).toBeDefined();
});

it("connects with the key that was entered", () => {
  const call = new Call();
  const connect = vi.spyOn(call, "connect").mockResolvedValue();
  render(<KeyForm call={call} />);
  fireEvent.change(screen.getByLabelText("Key"), { target: { value: "secret" } });
  fireEvent.click(screen.getByRole("button", { name: "Use this key" }));
  expect(connect).toHaveBeenCalledOnce();
  expect(apiKey()).toBe("secret");
});
