// The secrets file: the meaning of its entries, and that a broken file stops the start without revealing a secret.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ConfigError } from "../../src/config/index.js";
import {
  readSecrets,
  type Secret,
  type SecretUse,
  type SecretUser,
  secretMisuse,
  userOfSecret,
} from "../../src/egress/secrets.js";

const [ONE, TWO] = ["the-first-secret", "the-other-secret"];
const BASIC = "Basic dXNlcjpwYXNzd29yZA==";
const WHSEC = "whsec_c2VjcmV0c2VjcmV0";
const TOO_SHORT =
  "must have at least 16 characters, without a scheme or whsec_ in front of them: shorter ones can be guessed";
const SIGNING_TOO_SHORT =
  "SAGA_SIGNING_SECRET must have at least 32 characters: the secrets of all services are derived from it";

const folder = mkdtempSync(join(tmpdir(), "saga-secrets-"));
const secretsFile = join(folder, "secrets.json");
afterAll(() => rmSync(folder, { recursive: true }));

function read(text: string, isAccessOn = false) {
  writeFileSync(secretsFile, text);
  chmodSync(secretsFile, 0o600);
  return readSecrets({ secretsFile, isAccessOn });
}

function problems(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe("the secrets file", () => {
  it("has bearer tokens as text, and whole header values as objects", () => {
    const secrets = read(
      `{"a": "${ONE}", "b": {"value": "${BASIC}"}, "c": {"header": "X-Api-Key", "value": "${TWO}"}}`,
    );
    expect(secrets.get("a")).toEqual({ header: "authorization", line: `Bearer ${ONE}`, value: ONE });
    expect(secrets.get("b")).toEqual({ header: "authorization", line: BASIC, value: BASIC });
    expect(secrets.get("c")).toEqual({ header: "x-api-key", line: TWO, value: TWO });
    expect([secrets.get("d"), secrets.get("__proto__"), secrets.get("toString")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("a value has hosts and a use; one without hosts is warned about", () => {
    const secrets = read(
      `{"a": {"value": "${ONE}", "hosts": ["API.example", "*.shop.example"], "use": "bearer"},
        "b": {"value": "${TWO}", "hosts": ["api.example"]}, "c": {"value": "${WHSEC}", "use": "signing"}, "d": "four of four, and more"}`,
    );
    expect(secrets.get("a")).toEqual({
      ...{ header: "authorization", line: `Bearer ${ONE}`, value: ONE, use: "bearer" },
      hosts: ["api.example", "*.shop.example"],
    });
    expect(secrets.get("b")).toMatchObject({ line: `Bearer ${TWO}`, hosts: ["api.example"] });
    expect(secrets.warnings.map((text) => text.split(" ")[2])).toEqual(["c", "d"]);
    expect(secrets.warnings.join()).not.toMatch(/four|c2Vj/);
  });

  it("a secret goes to its hosts only, and is used for what it is for", () => {
    const secrets = read(
      `{"a": {"value": "${ONE}", "hosts": ["api.example", "*.shop.example", "10.0.0.7"], "use": "bearer"}}`,
    );
    const secret = secrets.get("a") as Secret;
    const misuse = (url: string, use: SecretUse = "bearer") => secretMisuse("a", secret, use, url);
    for (const url of [
      "https://api.example/x",
      "https://API.EXAMPLE:8080",
      "https://api.example.",
      "https://a.b.shop.example",
      "https://10.0.0.7",
    ])
      expect([url, misuse(url)]).toEqual([url, undefined]);
    for (const host of ["evil.example", "xapi.example", "api.example.evil.example", "shop.example", "xshop.example"])
      expect(misuse(`https://${host}/?x=api.example`)).toBe(`the secret a may not be sent to ${host}`);
    expect(misuse("https://api.example@evil.example")).toContain("evil.example");
    expect(misuse("nonsense")).toContain("may not be sent");
    expect(misuse("https://api.example", "signing")).toBe("the secret a is not for signing");
  });

  it("a secret goes over http to loopback only", () => {
    const secret = read(`{"a": "${ONE}"}`).get("a") as Secret;
    for (const use of ["bearer", "signing"] as const) {
      const misuse = (url: string) => secretMisuse("a", secret, use, url);
      for (const url of ["http://127.0.0.1:80/x", "http://127.9.9.9", "http://[::1]:8080", "http://LOCALHOST.:1"])
        expect([url, misuse(url)]).toEqual([url, undefined]);
      for (const host of ["api.example", "10.0.0.7", "localhost.example", "128.0.0.1", "0.0.0.0"]) {
        expect(misuse(`HTTP://${host}:80/x`)).toBe(
          `the secret a is used with https only, or with http on loopback, and not with http to ${host}`,
        );
        expect(misuse(`https://${host}`)).toBeUndefined();
      }
      expect(misuse("http://localhost@api.example")).toContain("not with http to api.example");
    }
  });

  it("a file that others can read or write is refused", () => {
    for (const mode of [0o644, 0o604, 0o602, 0o666]) {
      read('{"a": "s3cr3t-of-a-file"}');
      chmodSync(secretsFile, mode);
      expect(problems(() => readSecrets({ secretsFile }))).toEqual([
        `${secretsFile}: other users of this machine can read or write it; take that from them (chmod o-rw)`,
      ]);
    }
    chmodSync(secretsFile, 0o640);
    expect(readSecrets({ secretsFile }).get("a")?.value).toBe("s3cr3t-of-a-file");
    chmodSync(secretsFile, 0o600);
  });

  it("may be absent; the signing secret is independent of it", () => {
    expect(readSecrets({}).get("a")).toBeUndefined();
    expect(readSecrets({}).signing.of("a")).toEqual([]);
    expect(readSecrets({ signingSecret: '{"a": "whsec_c2VjcmV0"}' }).signing.of("a")).toEqual(["whsec_c2VjcmV0"]);
  });

  it.each([
    ["not JSON", "{s3cr3t", ["is not JSON"]],
    ["no object", '["s3cr3t"]', ["must be an object of secrets by name"]],
    ["no text", '{"a": 7}', ["a: its value must be one line of text"]],
    ["empty", '{"a": ""}', ["a: its value must be one line of text"]],
    ["two lines", '{"a": "s3cr3t\\nx"}', ["a: its value must be one line of text"]],
    [
      "a header that is none",
      '{"a": {"header": "x y", "value": "s3cr3t"}}',
      ["a: its header must be a header name that may carry a secret"],
    ],
    [
      "a header of ours",
      '{"a": {"header": "Host", "value": "s3cr3t"}}',
      ["a: its header must be a header name that may carry a secret"],
    ],
    [
      "more than is known",
      '{"a": {"value": "s3cr3t", "host": "x"}}',
      ["a: has members other than value, hosts, use, header and tenants"],
    ],
    ["an unknown use", '{"a": {"value": "s3cr3t", "use": "both"}}', ["a: its use must be bearer or signing"]],
    [
      "a use and a header",
      '{"a": {"value": "s3cr3t", "use": "bearer", "header": "x-key"}}',
      ["a: it has both a use and a header: keep one"],
    ],
    ["a signing key that is none", '{"a": "whsec_s3cr3t!"}', ["a: whsec_ must be followed by Base64"]],
    ["too short", '{"a": "s3cr3t-of-a-fil", "b": "s3cr3t-of-a-file"}', [`a: its value ${TOO_SHORT}`]],
    [
      "too short behind what everyone knows",
      '{"a": "Bearer s3cr3t-of-a-fil", "b": {"header": "Authorization", "value": "Basic s3cr3t-of"}, "c": "whsec_s3cr3tofafil"}',
      ["a", "b", "c"].map((name) => `${name}: its value ${TOO_SHORT}`),
    ],
    [
      "several",
      '{"a": 7, "b": null}',
      ["a: its value must be one line of text", "b: its value must be one line of text"],
    ],
  ])("%s stops the start", (_, text, expected) => {
    const found = problems(() => read(text));
    expect(found).toEqual(expected.map((problem) => `${secretsFile}: ${problem}`));
    expect(found.join()).not.toContain("s3cr3t");
  });

  it.each(["[]", '"api.example"', '["https://api.example"]', '["api.example/x"]', "[7]", '["*"]'])(
    "hosts of %s stop it",
    (hosts) => {
      expect(problems(() => read(`{"a": {"value": "s3cr3t", "hosts": ${hosts}}}`))).toEqual([
        `${secretsFile}: a: its hosts must be a list of host names, such as api.example or *.example`,
      ]);
    },
  );

  it("that cannot be read is a problem, and so is an invalid signing secret", () => {
    const missing = join(folder, "missing.json");
    expect(problems(() => readSecrets({ secretsFile: missing }))).toEqual([`${missing}: cannot be read (ENOENT)`]);
    expect(problems(() => readSecrets({ signingSecret: "whsec_" }))).toEqual([
      "SAGA_SIGNING_SECRET must have Base64 after whsec_",
    ]);
    for (const signingSecret of ["fifteen letters", "whsec_c2VjcmV0"])
      expect(problems(() => readSecrets({ signingSecret }))).toEqual([SIGNING_TOO_SHORT]);
  });

  it("that has problems is reported together with the signing secret", () => {
    read('{"a": "s3cr3t-of-a-file"}');
    writeFileSync(secretsFile, '{"a": "short", "b": "shorter"}');
    expect(problems(() => readSecrets({ secretsFile, signingSecret: "short" }))).toEqual([
      SIGNING_TOO_SHORT,
      ...["a", "b"].map((name) => `${secretsFile}: ${name}: its value ${TOO_SHORT}`),
    ]);
  });
});

describe("the tenants of a secret", () => {
  const [A, B] = ["0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"];
  const FILE = `{"of_a": {"value": "${ONE}", "tenants": ["${A.toUpperCase()}"]}, "of_none": {"value": "${TWO}", "tenants": []}, "free": "${TWO}"}`;
  /** Runs of the platform, of A and of B; of the platform's definition and of A's. */
  const USERS: readonly SecretUser[] = [
    { tenantId: null, definitionOwner: null, workflowId: "orders" },
    { tenantId: A, definitionOwner: null, workflowId: "orders" },
    { tenantId: B, definitionOwner: null, workflowId: "orders" },
    { tenantId: A, definitionOwner: A, workflowId: "orders" },
  ];
  const uses = (secrets: ReturnType<typeof read>, name: string) =>
    Promise.all(
      USERS.map(async (user) => (await userOfSecret(secrets.get(name) as Secret, async () => user)) !== undefined),
    );

  it("may use it in their runs, whoever the definition is of", async () => {
    for (const isAccessOn of [false, true]) {
      expect(await uses(read(FILE, isAccessOn), "of_a")).toEqual([false, true, false, true]);
      expect(await uses(read(FILE, isAccessOn), "of_none")).toEqual([false, false, false, false]);
    }
  });

  it("are those of the definitions of the platform where none are named, and any with access off", async () => {
    expect(await uses(read(FILE, true), "free")).toEqual([true, true, true, false]);
    expect(await uses(read(FILE), "free")).toEqual([true, true, true, true]);
  });

  it("are asked for only where it matters, and a run that is gone has none", async () => {
    const never = async () => {
      throw new Error("not asked");
    };
    expect(await userOfSecret(read(FILE).get("free") as Secret, never)).toBe("anyone");
    for (const name of ["of_a", "free"])
      expect(await userOfSecret(read(FILE, true).get(name) as Secret, async () => undefined)).toBe(undefined);
  });

  it("may publish definitions that name it; what is in no file is nobody's, and without a file any name will do", () => {
    const isOf = (secrets: ReturnType<typeof read>) =>
      ["of_a", "of_none", "free", "absent"].map((name) => [A, B].map((tenant) => secrets.isOf(name, tenant)));
    const none = [false, false];
    expect(isOf(read(FILE, true))).toEqual([[true, false], none, none, none]);
    expect(readSecrets({ isAccessOn: true }).isOf("absent", A)).toBe(true);
  });

  it("are UUIDs", () => {
    for (const tenants of ['"acme"', '["acme"]', "null"])
      expect(problems(() => read(`{"a": {"value": "${ONE}", "tenants": ${tenants}}}`))).toEqual([
        `${secretsFile}: a: its tenants must be a list of UUIDs`,
      ]);
  });
});
