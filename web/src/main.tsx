import "./styles.css";

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./App";
import { Call } from "./call";
import { takeKeyFromAddress } from "./key";

takeKeyFromAddress();
window.addEventListener("hashchange", takeKeyFromAddress);

const root = document.getElementById("root");
if (root === null) {
  throw new Error("index.html has no #root");
}
createRoot(root).render(
  <StrictMode>
    <App call={new Call()} />
  </StrictMode>,
);
