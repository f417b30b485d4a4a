# One worker of two modules and the client, which may ask this machine.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);

const main :Workerd.Worker = (
  compatibilityDate = "2026-01-01",
  modules = [
    (name = "workerd.mjs", esModule = embed "workerd.mjs"),
    (name = "play.mjs", esModule = embed "play.mjs"),
    (name = "@saga-orchestrator/client", esModule = embed "node_modules/@saga-orchestrator/client/dist/index.js"),
  ],
);
