// An issuer of tokens over real HTTP: it signs, publishes its keys, rotates them, hangs, lies, and goes away. Its tokens are good unless a test
// changes something of them.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";

/** Where the keys are, too, whatever the issuer does: for a redirect. */
export const ELSEWHERE = "/elsewhere";

export const AUDIENCE = "https://saga.example";

export interface SigningKey {
  readonly id: string;
  readonly algorithm: string;
  readonly privateKey: CryptoKey;
  /** As it is published. */
  readonly jwk: JWK;
}

export async function makeSigningKey(id: string, algorithm = "ES256"): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  return { id, algorithm, privateKey, jwk: { ...(await exportJWK(publicKey)), kid: id, alg: algorithm, use: "sig" } };
}

export interface Signing {
  readonly key?: SigningKey;
  /** Members beside `alg` and `kid`; undefined ones are left out. */
  readonly header?: Readonly<Record<string, unknown>>;
}

type Answer = (response: ServerResponse) => void;

export class Issuer {
  /** Published, the newest first. */
  keys: SigningKey[] = [];
  /** Requests for the keys that arrived. */
  asked = 0;
  /** Requests that hang. */
  readonly hanging: ServerResponse[] = [];
  private answer: Answer = (response) => this.publish(response);

  private constructor(
    /** Where the keys are. */
    readonly keysUrl: string,
    readonly name: string,
    /** Seconds since the epoch, as the issuer's clock has them. */
    private readonly now: () => number,
    readonly close: () => Promise<void>,
  ) {}

  static async open(now: () => number): Promise<Issuer> {
    let issuer: Issuer | undefined;
    const server = createServer(({ url }, response) => issuer?.asks(url, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const name = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const close = async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    };
    issuer = new Issuer(`${name}/keys`, name, now, close);
    await issuer.rotate("first");
    return issuer;
  }

  private asks(url: string | undefined, response: ServerResponse): void {
    this.asked++;
    if (url === ELSEWHERE) this.publish(response);
    else this.answer(response);
  }

  /** A new key, with which tokens are signed from now on. The others go, unless they are kept. */
  async rotate(id: string, { keep = false, algorithm = "ES256" } = {}): Promise<SigningKey> {
    const key = await makeSigningKey(id, algorithm);
    this.keys = [key, ...(keep ? this.keys : [])];
    return key;
  }

  get newest(): SigningKey {
    const [newest] = this.keys;
    if (!newest) throw new Error("the issuer has no key");
    return newest;
  }

  /** A member that is undefined is left out of the token. */
  sign(claims: Readonly<Record<string, unknown>> = {}, { key = this.newest, header }: Signing = {}): Promise<string> {
    const { id, algorithm, privateKey } = key;
    const now = this.now();
    const registered = { iss: this.name, aud: AUDIENCE, sub: "ann", iat: now, exp: now + 300, roles: ["viewer"] };
    const all = JSON.parse(JSON.stringify({ ...registered, ...claims })) as JWTPayload;
    const protectedHeader = JSON.parse(JSON.stringify({ alg: algorithm, kid: id, ...header }));
    return new SignJWT(all).setProtectedHeader(protectedHeader).sign(privateKey);
  }

  /** The keys, as they are meant to be. */
  isBack(): void {
    this.answer = (response) => this.publish(response);
    for (const response of this.hanging.splice(0)) this.publish(response);
  }

  hangs(): void {
    this.answer = (response) => void this.hanging.push(response);
  }

  /** Connections end without an answer. */
  isAway(): void {
    this.answer = (response) => response.destroy();
  }

  answers(body: string | Buffer, { status = 200, headers = {} as Record<string, string> } = {}): void {
    this.answer = (response) => void response.writeHead(status, headers).end(body);
  }

  private publish(response: ServerResponse): void {
    const body = JSON.stringify({ keys: this.keys.map(({ jwk }) => jwk) });
    response.writeHead(200, { "content-type": "application/json" }).end(body);
  }
}
