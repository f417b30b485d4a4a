// Requests that ask for an upgrade. Node takes every one of them off HTTP as soon as the server handles upgrades at all; here,
// only a WebSocket handshake for a route that is a WebSocket is taken. Any other is a request like those without the header: Java's
// HTTP client asks every server for `h2c` and expects that. An open WebSocket ends with the credential that opened it.
import { IncomingMessage } from "node:http";
import type { WebSocket } from "@fastify/websocket";
import type { FastifyInstance } from "fastify";
import { type Principal, untilEnd } from "../../access/index.js";

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
 * are refused before its own hook. The answer says it: a client may send its next request over the connection otherwise.
 */
export function closeRefusedUpgrades(app: FastifyInstance): void {
  app.addHook("onRequest", ({ raw }, reply, done) => {
    if ("upgrade" in raw && raw.upgrade === true) reply.header("connection", "close");
    done();
  });
  app.addHook("onResponse", ({ raw, ws }, _reply, done) => {
    if (!ws && "upgrade" in raw && raw.upgrade === true) raw.socket.destroy();
    done();
  });
}

/** RFC 6455: what the endpoint received violates its policy. */
const POLICY_VIOLATION = 1008;

/** A WebSocket is open for longer than its credential may be. It is closed when the credential ends. `now`: epoch milliseconds. */
export function closeWithCredential(app: FastifyInstance, now: () => number): void {
  app.addHook("onRoute", (route) => {
    const { wsHandler } = route;
    if (!wsHandler) return;
    route.wsHandler = function (socket, request) {
      closeAtEndOf(request.principal, socket, now);
      return wsHandler.call(this, socket, request);
    };
  });
}

function closeAtEndOf(principal: Principal, socket: WebSocket, now: () => number): void {
  const close = () => socket.close(POLICY_VIOLATION, "the credential has ended");
  socket.once("close", untilEnd(principal, now, close));
}

function isHandshake({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === "websocket";
}
