// The program of the console: it mounts the pages behind their gate. What it shows is read from the public API, at the same origin.
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { App } from "./app.js";
import { waysIn } from "./browser/service.js";
import { session } from "./browser/session.js";
import { Gate } from "./session/gate.js";
import "./style.css";
import "./parts/tabs.css";

const root = document.getElementById("console");
const ways = waysIn();
if (ways) session.start();
if (root)
  createRoot(root).render(
    <StrictMode>
      <Gate ways={ways}>
        <Router base="/console">
          <App />
        </Router>
      </Gate>
    </StrictMode>,
  );
