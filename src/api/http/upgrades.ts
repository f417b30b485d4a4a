// Requests that ask for an upgrade. Node takes every one of them off HTTP as soon as the server handles upgrades at all; here,
// only a WebSocket handshake for a route that is a WebSocket is taken. Any other is a request like those without the header: Java's
// HTTP client asks every server for `h2c` and expects that.
import { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";

/** The message class for `http.createServer`. It asks whether the path of a URL is a WebSocket. */
export function messageClass(isWebSocket: (url: string) => boolean): typeof IncomingMessage {
  return class extends IncomingMessage {
    private asked = false;

    /** Node's parser sets it and reads it back before it decides who gets the request. */
    get upgrade(): boolean {
      if (!this.asked || this.method === "CONNECT") return this.asked;
      return this.method === "GET" && isHandshake(this) && isWebSocket(this.url ?? "");
    }

    set upgrade(asked: boolean) {
      this.asked = asked;
    }
  };
}

/**
 * Node has given up the socket of an upgrade, so a refusal has to close it. The WebSocket plugin does so, but not for requests that
 * are refused before its own hook.
 */
export function closeRefusedUpgrades(app: FastifyInstance): void {
  app.addHook("onResponse", ({ raw, ws }, _reply, done) => {
    if (!ws && "upgrade" in raw && raw.upgrade === true) raw.socket.destroy();
    done();
  });
}

function isHandshake({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}
