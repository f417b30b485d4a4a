// A POST of JSON to the service: one request, which is never repeated here. Not `fetch`: it fails on an interim response that it did not ask
// for (RFC 9110, section 15.2, has it skipped), as a proxy in between may send one.
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { authorities, type TlsOptions } from "./tls.js";
import type { Credential } from "./token.js";

export interface Posted {
  readonly status: number;
  /** Where a redirect leads. It is not followed: the credential is for the given address. */
  readonly location?: string;
  /** The members of the body that the service does not know. */
  readonly ignored?: string;
  /** At most 64 Ki characters of the body. */
  readonly text: string;
}

/** By what the service knows the worker, and the worker the service. */
export interface Peers {
  readonly credential: Pick<Credential, "present" | "isRenewed">;
  readonly tls: TlsOptions | undefined;
}

/** What says that a request may be made. */
export type Authority = { readonly authorization: string } | { readonly "saga-callback-token": string };

const MOST_TEXT = 65_536;

/** Rejects without an answer, also when the signal is aborted. `authority`: in place of the worker's credential. */
export async function post(
  url: string,
  body: string,
  { credential, tls }: Peers,
  signal: AbortSignal,
  authority?: Authority,
): Promise<Posted> {
  const token = authority ? undefined : await credential.present();
  const headers = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...authority,
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
  return new Promise((resolve, reject) => {
    const send = new URL(url).protocol === "https:" ? requestHttps : requestHttp;
    const ca = tls && authorities(tls);
    const outgoing = send(url, { method: "POST", headers, signal, ...(ca && { ca }) }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        if (text.length < MOST_TEXT) text += chunk;
      });
      const { statusCode: status = 0, headers } = response;
      const { location, "saga-ignored-fields": ignored } = headers;
      response.on("end", () =>
        resolve({
          ...{ status, text: text.slice(0, MOST_TEXT) },
          ...(location !== undefined && { location }),
          ...(ignored !== undefined && { ignored: String(ignored) }),
        }),
      );
      response.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
