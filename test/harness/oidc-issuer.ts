// A small OpenID Connect issuer over real HTTP, for logins: discovery, the page of authorization (whoever comes is logged in at once), the token
// endpoint with PKCE, its keys. A test changes what it says of itself and of who has logged in.
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type JWTPayload, SignJWT } from "jose";
import { makeSigningKey, type SigningKey } from "./issuer.js";

export const CLIENT = { id: "saga-console", secret: "a-secret-of-the-console" } as const;

interface Code {
  readonly challenge: string;
  readonly redirectUri: string;
  readonly nonce: string;
}

export class OidcIssuer {
  /** Claims of the ID token, beside those of the protocol. A member that is undefined is left out. */
  claims: Readonly<Record<string, unknown>> = {};
  /** Members of its discovery that are others than they should be. */
  metadata: Readonly<Record<string, unknown>> = {};
  /** The beginning of every code. */
  codePrefix = "code";
  /** What the token endpoint answers instead, if it refuses. */
  refusal: object | string | undefined;
  /** The codes and tokens that it has given out. */
  readonly given: string[] = [];
  /** With which ID tokens are signed. The published one is `key`. */
  signedWith: SigningKey;
  isAway = false;
  /** Its discovery is elsewhere, and it says where. */
  moved = false;
  /** Requests to the token endpoint. */
  asked = 0;
  private readonly codes = new Map<string, Code>();
  private nth = 0;

  private constructor(
    readonly name: string,
    readonly key: SigningKey,
    readonly close: () => Promise<void>,
  ) {
    this.signedWith = key;
  }

  static async open(): Promise<OidcIssuer> {
    let issuer: OidcIssuer | undefined;
    const server = createServer((request, response) => void issuer?.answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const close = async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    };
    const name = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    issuer = new OidcIssuer(name, await makeSigningKey("first"), close);
    return issuer;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", this.name);
    if (this.isAway) return void response.destroy();
    const isDiscovery = url.pathname === "/.well-known/openid-configuration";
    if (isDiscovery && this.moved) return void response.writeHead(302, { location: `${this.name}/moved` }).end();
    if (isDiscovery || url.pathname === "/moved") return json(response, this.discovery());
    if (url.pathname === "/keys") return json(response, { keys: [this.key.jwk] });
    if (url.pathname === "/authorize") return this.authorize(url.searchParams, response);
    if (url.pathname === "/token") return json(response, ...(await this.token(request)));
    json(response, {}, 404);
  }

  private discovery() {
    return {
      ...{ issuer: this.name, jwks_uri: `${this.name}/keys` },
      ...{ authorization_endpoint: `${this.name}/authorize`, token_endpoint: `${this.name}/token` },
      ...{ response_types_supported: ["code"], subject_types_supported: ["public"] },
      ...{ id_token_signing_alg_values_supported: ["ES256"], code_challenge_methods_supported: ["S256"] },
      ...this.metadata,
    };
  }

  private authorize(asked: URLSearchParams, response: ServerResponse): void {
    const get = (name: string) => asked.get(name) ?? "";
    if (get("client_id") !== CLIENT.id || get("code_challenge_method") !== "S256") return json(response, {}, 400);
    const code = `${this.codePrefix}-${++this.nth}`;
    this.given.push(code);
    this.codes.set(code, { challenge: get("code_challenge"), redirectUri: get("redirect_uri"), nonce: get("nonce") });
    const back = new URL(get("redirect_uri"));
    back.search = new URLSearchParams({ code, state: get("state") }).toString();
    response.writeHead(302, { location: back.href }).end();
  }

  private async token(request: IncomingMessage): Promise<[object | string, number]> {
    this.asked++;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const asked = new URLSearchParams(Buffer.concat(chunks).toString());
    const [, basic = ""] = request.headers.authorization?.split(" ") ?? [];
    // Both are encoded as in a form (RFC 6749, 2.3.1).
    if (decodeURIComponent(Buffer.from(basic, "base64").toString()) !== `${CLIENT.id}:${CLIENT.secret}`)
      return [{ error: "invalid_client" }, 401];
    const code = this.codes.get(asked.get("code") ?? "");
    // A code is good once.
    this.codes.delete(asked.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(asked.get("code_verifier") ?? "")
      .digest("base64url");
    if (code?.challenge !== challenge || code.redirectUri !== asked.get("redirect_uri"))
      return [{ error: "invalid_grant" }, 400];
    if (this.refusal) return [this.refusal, 400];
    const tokens = { access_token: `unused-${this.codePrefix}`, id_token: await this.idToken(code.nonce) };
    this.given.push(...Object.values(tokens));
    return [{ ...tokens, token_type: "Bearer" }, 200];
  }

  private idToken(nonce: string): Promise<string> {
    const { id, algorithm, privateKey } = this.signedWith;
    const now = Math.floor(Date.now() / 1000);
    const registered = { iss: this.name, aud: CLIENT.id, sub: "ann", iat: now, exp: now + 300, nonce };
    const claims = JSON.parse(JSON.stringify({ ...registered, ...this.claims })) as JWTPayload;
    return new SignJWT(claims).setProtectedHeader({ alg: algorithm, kid: id }).sign(privateKey);
  }
}

function json(response: ServerResponse, body: object | string, status = 200): void {
  response
    .writeHead(status, { "content-type": "application/json" })
    .end(typeof body === "string" ? body : JSON.stringify(body));
}
