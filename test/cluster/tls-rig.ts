// What the tests of TLS ask of a port: requests that trust one authority, the certificate that a port serves, and files whose certificate can
// be replaced.
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectionOptions, connect } from "node:tls";
import type { IssuedFiles } from "../harness/certificates.js";
import { atFileEnd } from "../harness/file-end.js";

export const NAMES = ["DNS:localhost", "IP:127.0.0.1"];

export interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape, and fail if the shape is wrong.
  readonly body: any;
  readonly headers: Readonly<Record<string, unknown>>;
}

export interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Over a connection of its own. Rejects where the certificate does not verify. */
export function askOver(port: number, ca: string, { method = "GET", path, body, headers }: Asked): Promise<Answer> {
  const type = body === undefined ? {} : { "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, ca, method, path, headers: { ...type, ...headers }, agent: false };
    const sent = request(options, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => {
        text += part;
      });
      response.on("error", reject).on("end", () => {
        const isJson = String(response.headers["content-type"]).includes("json");
        const { statusCode: status = 0, headers } = response;
        resolve({ status, text, headers, body: isJson ? JSON.parse(text) : undefined });
      });
    });
    sent.on("error", reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The serial number of the certificate that a port serves, or the code of the error. */
export function served(port: number, options: ConnectionOptions): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, ...options }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(String(error.code)));
  });
}

/** Two files, as an operator's tool replaces them in place. */
export class ReplacedFiles {
  private readonly folder = mkdtempSync(join(tmpdir(), "saga-tls-"));
  readonly certFile = join(this.folder, "tls.crt");
  readonly keyFile = join(this.folder, "tls.key");

  constructor() {
    atFileEnd(async () => rmSync(this.folder, { recursive: true, force: true }));
  }

  get settings() {
    return { SAGA_TLS_CERT_FILE: this.certFile, SAGA_TLS_KEY_FILE: this.keyFile };
  }

  hold({ certFile, keyFile }: IssuedFiles): void {
    copyFileSync(certFile, this.certFile);
    copyFileSync(keyFile, this.keyFile);
  }

  /** No certificate any more. */
  spoil(): void {
    writeFileSync(this.certFile, "half a certificate");
  }
}
