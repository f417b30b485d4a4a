// Probes whether a service answers at a URL, in its own protocol and without a client library. It imports no test code, because the
// CI script runs it before the tests.
import { connect as connectPlain } from "node:net";
import { connect as connectTls } from "node:tls";

/** The first bytes of each protocol, and the replies that prove that the server speaks it. */
const hello = {
  redis: { port: 6379, bytes: Buffer.from("PING\r\n"), replies: ["+PONG", "-NOAUTH", "-DENIED"] },
  /** The protocol header. The reply is a method frame, or the header of a supported version. */
  amqp: { port: 5672, bytes: Buffer.from("414d515000000901", "hex"), replies: ["\x01\x00\x00", "AMQP"] },
  /** A request for an encrypted session. The reply is yes or no. */
  postgres: { port: 5432, bytes: Buffer.from("0000000804d2162f", "hex"), replies: ["S", "N"] },
};

export const answersAsRedis = (url: string) => answers(url, hello.redis);
export const answersAsRabbitMq = (url: string) => answers(url, hello.amqp);
export const answersAsPostgres = (url: string) => answers(url, hello.postgres);

function answers(url: string, server: (typeof hello)["redis"]): Promise<boolean> {
  const { protocol, hostname, port } = new URL(url);
  const to = { host: hostname || "127.0.0.1", port: Number(port) || server.port };
  const socket = /^(rediss|amqps):$/.test(protocol) ? connectTls(to) : connectPlain(to);
  return new Promise((resolve) => {
    const finish = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(3_000, () => finish(false));
    socket.once("error", () => finish(false));
    socket.once("close", () => finish(false));
    socket.once("data", (data) => {
      const reply = data.toString("latin1");
      finish(server.replies.some((expected) => reply.startsWith(expected)));
    });
    socket.write(server.bytes);
  });
}
