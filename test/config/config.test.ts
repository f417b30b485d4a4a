// The configuration: defaults and settings, the problems that it reports, and the secrets that it does not print.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConfigError, loadConfig, publicUrlAt } from "../../src/config/index.js";

let folder: string;
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-config-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).problems;
  }
  return [];
}

describe("defaults", () => {
  it("an empty environment is a working configuration", () => {
    const { config } = loadConfig({});
    expect(config).toMatchObject({
      host: "127.0.0.1",
      httpPort: 8080,
      grpcPort: 9090,
      publicUrl: "http://127.0.0.1:8080",
      dataDir: join(process.cwd(), ".saga"),
      stepsPerCommit: 64,
      auth: "off",
      console: true,
      inspect: true,
      logLevel: "info",
      limits: { bodyBytes: 2_097_152, steps: 1000, entries: 100_000 },
      allowedHosts: [],
      allowedOrigins: [],
    });
    expect(config.workers).toBeGreaterThanOrEqual(1);
    for (const absent of ["databaseUrl", "redisUrl", "amqpUrl", "workerAllow", "inspectUi"])
      expect(config).not.toHaveProperty(absent);
  });

  it("an empty string is an absent setting", () => {
    expect(loadConfig({ HTTP_PORT: "", DATABASE_URL: "", SAGA_AUTH: "", HOST_FILE: "" }).config).toEqual(
      loadConfig({}).config,
    );
  });

  it("an open service is warned about", () => {
    expect(loadConfig({}).warnings).toEqual(["SAGA_AUTH is off: anyone who can reach this service can do everything"]);
  });
});

describe("settings", () => {
  it.each([
    [
      { HTTP_PORT: "0", GRPC_PORT: "0" },
      { httpPort: 0, grpcPort: 0 },
    ],
    [{ HOST: "0.0.0.0", SAGA_INSECURE: "1", HTTP_PORT: "81" }, { publicUrl: "http://127.0.0.1:81" }],
    [{ HOST: "::1" }, { publicUrl: "http://[::1]:8080" }],
    [{ SAGA_PUBLIC_URL: "https://saga.example/base/" }, { publicUrl: "https://saga.example/base" }],
    [{ SAGA_DATA_DIR: "/var/lib/saga" }, { dataDir: "/var/lib/saga" }],
    [{ DATABASE_URL: "postgresql://u:p@db/x" }, { databaseUrl: "postgresql://u:p@db/x" }],
    [
      { REDIS_URL: "rediss://r:6380", REDIS_PREFIX: "a:" },
      { redisUrl: "rediss://r:6380", redisPrefix: "a:" },
    ],
    [
      { AMQP_URL: "amqp://guest:guest@q", SAGA_EVENTS_EXCHANGE: "a.events", SAGA_LIFECYCLE_EVENTS: "on" },
      { amqpUrl: "amqp://guest:guest@q", eventsExchange: "a.events", lifecycleEvents: true },
    ],
    [
      { SAGA_WORKERS: "3", SAGA_STEPS_PER_COMMIT: "1" },
      { workers: 3, stepsPerCommit: 1 },
    ],
    [
      { SAGA_INSPECT: "off", SAGA_INSPECT_UI: "http://ui" },
      { inspect: false, inspectUi: "http://ui" },
    ],
    [{ SAGA_CONSOLE: "off" }, { console: false }],
    [
      { SAGA_EGRESS_ALLOW: "10.0.0.0/8, internal.example,fd00::/8", SAGA_WORKER_ALLOW: "127.0.0.1" },
      { egressAllow: ["10.0.0.0/8", "internal.example", "fd00::/8"], workerAllow: ["127.0.0.1"] },
    ],
    [
      { SAGA_LICENSES_FILE: "/l", SAGA_STARTUP_VARIABLES_FILE: "/v" },
      { licensesFile: "/l", startupVariablesFile: "/v" },
    ],
    [
      { SAGA_STARTUP_VARIABLES_URL: "https://vars.example/v1" },
      {
        startupProvider: {
          ...{ url: "https://vars.example/v1", timeoutMs: 2_000, cacheMs: 60_000, onFailure: "closed" },
        },
      },
    ],
    [
      {
        ...{ SAGA_STARTUP_VARIABLES_URL: "http://vars", SAGA_STARTUP_VARIABLES_TIMEOUT_MS: "500" },
        ...{ SAGA_STARTUP_VARIABLES_CACHE_MS: "0", SAGA_STARTUP_VARIABLES_ON_FAILURE: "open" },
        SAGA_STARTUP_VARIABLES_SECRET: "vars",
      },
      { startupProvider: { url: "http://vars", timeoutMs: 500, cacheMs: 0, onFailure: "open", secret: "vars" } },
    ],
    [
      { SAGA_DEFINITIONS_DIR: "/d", SAGA_SECRETS_FILE: "/s" },
      { definitionsDir: "/d", secretsFile: "/s" },
    ],
    [
      {
        SAGA_ALLOWED_HOSTS: "saga.example, 10.0.0.0/8",
        SAGA_ALLOWED_ORIGINS: "https://console.example,http://localhost:3000",
      },
      {
        allowedHosts: ["saga.example", "10.0.0.0/8"],
        allowedOrigins: ["https://console.example", "http://localhost:3000"],
      },
    ],
    [
      { SAGA_SIGNING_SECRET: "whsec", SAGA_RETENTION_DAYS: "30", SAGA_EVENT_RETENTION_DAYS: "7" },
      { signingSecret: "whsec", retentionDays: 30, eventRetentionDays: 7 },
    ],
    [
      {
        SAGA_RETENTION_DAYS: "30",
        SAGA_RETENTION_MIN_DAYS: "7",
        SAGA_RETENTION_MAX_DAYS: "400",
        SAGA_ARCHIVE_DIR: "/var/archive",
      },
      { retentionDays: 30, retentionMinDays: 7, retentionMaxDays: 400, archiveDir: "/var/archive" },
    ],
    [
      { SAGA_LIMIT_STEPS: "5", LOG_LEVEL: "debug" },
      { limits: { steps: 5, branches: 100 }, logLevel: "debug" },
    ],
  ])("%j", (env, expected) => {
    expect(loadConfig(env as unknown as Record<string, string>).config).toMatchObject(expected);
  });
});

describe("a service without access control", () => {
  it.each(["127.0.0.1", "127.9.9.9", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "localhost", "LOCALHOST."])(
    "listens on %s: that is loopback",
    (host) => {
      const { config, warnings } = loadConfig({ HOST: host, SAGA_AUTH: "off" });
      expect([config.host, config.auth, warnings.length]).toEqual([host, "off", 1]);
    },
  );

  it.each(["0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::2", "::ffff:10.0.0.1", "127.1", "saga", "localhost.example"])(
    "listens on %s, which is not, only where SAGA_INSECURE says so, with one warning",
    (host) => {
      const notSaid: Record<string, string>[] = [{}, { SAGA_INSECURE: "" }, { SAGA_INSECURE: "0" }];
      for (const off of notSaid) {
        const [problem, ...others] = problemsOf({ HOST: host, ...off });
        expect(problem).toMatch(/^HOST is beyond loopback.*set SAGA_AUTH.*SAGA_INSECURE=1/);
        expect(others).toEqual([]);
      }
      const { config, warnings } = loadConfig({ HOST: host, SAGA_INSECURE: "1" });
      expect([config.host, config.auth]).toEqual([host, "off"]);
      expect(warnings).toEqual([
        expect.stringContaining(`anyone who can reach this service at ${host} can do everything`),
      ]);
    },
  );

  it("is warned about web pages while it checks no Host", () => {
    const warned = (env: Record<string, string>) =>
      loadConfig({ HOST: "0.0.0.0", SAGA_INSECURE: "1", ...env }).warnings;
    expect(warned({}).join()).toContain("so can a web page in their browsers until SAGA_ALLOWED_HOSTS is set");
    expect(warned({ SAGA_ALLOWED_HOSTS: "saga" }).join()).not.toContain("web page");
  });

  it.each([
    ["SAGA_AUTH_API_KEYS", /API keys are made with saga key create and POST \/api\/v1\/api_keys$/],
    ["SAGA_AUTH_JWT_SECRET", /SAGA_AUTH_JWKS_URL or SAGA_AUTH_JWKS_FILE$/],
    ["SAGA_AUTH_JWT_PUBLIC_KEY", /SAGA_AUTH_JWKS_URL or SAGA_AUTH_JWKS_FILE$/],
  ])("refuses %s of earlier releases, names its successor and shows no value", (name, successor) => {
    for (const set of [name, `${name}_FILE`]) {
      const problems = problemsOf({ [set]: "hunter2" });
      expect(problems).toEqual([expect.stringMatching(successor)]);
      expect(problems[0]).toMatch(new RegExp(`^${set} is no setting any more: remove it`));
      expect(problems.join()).not.toContain("hunter2");
    }
    expect(problemsOf({ [name]: "" })).toEqual([]);
  });
});

describe("the public URL", () => {
  it("has the port that was chosen where any free one was asked for, and is otherwise as it is set", () => {
    const at = (env: Record<string, string>) => publicUrlAt(4711, loadConfig(env).config);
    expect(at({ HTTP_PORT: "0" })).toBe("http://127.0.0.1:4711");
    expect(at({ HTTP_PORT: "81" })).toBe("http://127.0.0.1:81");
    expect(at({ HTTP_PORT: "0", SAGA_PUBLIC_URL: "https://saga.example/base/" })).toBe("https://saga.example/base");
  });
});

describe("_FILE", () => {
  it("any setting can come from a file, without its last line break", () => {
    const env = {
      DATABASE_URL_FILE: file("url", "postgres://u:p@db/x\n"),
      HTTP_PORT_FILE: file("port", "\uFEFF8181\r\n"),
      SAGA_LICENSES_FILE_FILE: file("path", "/etc/licences"),
      SAGA_LIMIT_STEPS_FILE: file("steps", "7"),
    };
    const { config, warnings } = loadConfig(env);
    expect(config).toMatchObject({ databaseUrl: "postgres://u:p@db/x", httpPort: 8181, licensesFile: "/etc/licences" });
    expect(config.limits.steps).toBe(7);
    expect(warnings.filter((warning) => warning.includes("_FILE"))).toEqual([]);
  });

  it("both forms, a missing file and an empty one are problems", () => {
    expect(problemsOf({ HOST: "a", HOST_FILE: file("host", "b") })[0]).toContain("HOST and HOST_FILE are both set");
    expect(problemsOf({ HOST_FILE: join(folder, "none") })[0]).toMatch(/HOST_FILE .*ENOENT/);
    expect(problemsOf({ SAGA_AUTH_FILE: file("empty", "\n") })[0]).toContain("SAGA_AUTH_FILE names an empty file");
  });
});

describe("problems", () => {
  it.each([
    [{ HTTP_PORT: "80a" }, "HTTP_PORT must be a whole number from 0 to 65535"],
    [{ HTTP_PORT: "-1" }, "HTTP_PORT"],
    [{ GRPC_PORT: "65536" }, "GRPC_PORT"],
    [{ HTTP_PORT: "9090" }, "GRPC_PORT must differ from HTTP_PORT"],
    [{ SAGA_STEPS_PER_COMMIT: "65" }, "SAGA_STEPS_PER_COMMIT must be a whole number from 1 to 64"],
    [{ SAGA_WORKERS: "0" }, "SAGA_WORKERS"],
    [{ DATABASE_URL: "mysql://x" }, "DATABASE_URL must begin with postgres://"],
    [{ REDIS_URL: "localhost:6379" }, "REDIS_URL"],
    [{ AMQP_URL: "http://x" }, "AMQP_URL"],
    [{ SAGA_PUBLIC_URL: "saga.example" }, "SAGA_PUBLIC_URL"],
    [{ SAGA_INSPECT: "maybe" }, "SAGA_INSPECT must be on or off"],
    [{ SAGA_EVENTS_EXCHANGE: "amq.topic" }, "SAGA_EVENTS_EXCHANGE must be 1 to 200 of"],
    [{ LOG_LEVEL: "loud" }, "LOG_LEVEL must be one of"],
    [{ SAGA_RETENTION_DAYS: "1.5" }, "SAGA_RETENTION_DAYS"],
    [{ SAGA_RETENTION_MAX_DAYS: "30" }, "SAGA_RETENTION_MAX_DAYS"],
    [{ SAGA_RETENTION_DAYS: "31", SAGA_RETENTION_MAX_DAYS: "30" }, "SAGA_RETENTION_DAYS"],
    [{ SAGA_RETENTION_DAYS: "1", SAGA_RETENTION_MIN_DAYS: "2" }, "SAGA_RETENTION_DAYS"],
    [
      { SAGA_RETENTION_DAYS: "2", SAGA_RETENTION_MIN_DAYS: "3", SAGA_RETENTION_MAX_DAYS: "2" },
      "SAGA_RETENTION_MIN_DAYS",
    ],
    [{ SAGA_LIMIT_NESTING: "0" }, "SAGA_LIMIT_NESTING"],
    [{ SAGA_EGRESS_ALLOW: "10.0.0.0/33" }, 'not an address, CIDR block or host name: "10.0.0.0/33"'],
    [{ SAGA_EGRESS_ALLOW: "300.1.1.1" }, "SAGA_EGRESS_ALLOW"],
    [{ SAGA_WORKER_ALLOW: "http://x" }, "SAGA_WORKER_ALLOW"],
    [{ SAGA_ALLOWED_HOSTS: "https://saga.example" }, "SAGA_ALLOWED_HOSTS has an entry that is not an address"],
    [{ SAGA_ALLOWED_HOSTS: "saga.example:8080" }, 'or host name: "saga.example:8080"'],
    [{ SAGA_ALLOWED_ORIGINS: "console.example" }, "SAGA_ALLOWED_ORIGINS has an entry that is not an origin"],
    [
      { SAGA_ALLOWED_ORIGINS: "https://console.example/" },
      'such as https://console.example: "https://console.example/"',
    ],
    [{ SAGA_ALLOWED_ORIGINS: "*" }, "SAGA_ALLOWED_ORIGINS"],
    [{ SAGA_ALLOWED_ORIGINS: "null" }, "SAGA_ALLOWED_ORIGINS"],
    [{ SAGA_INSECURE: "maybe" }, "SAGA_INSECURE must be on or off"],
  ])("%j", (env, sentence) => {
    expect(problemsOf(env as unknown as Record<string, string>).join("\n")).toContain(sentence);
  });

  it("all are listed at once, in the message", () => {
    const env = { HTTP_PORT: "x", DATABASE_URL: "x", SAGA_INSPECT: "x", SAGA_LIMIT_STEPS: "x" };
    expect(problemsOf(env)).toHaveLength(4);
    const message = new ConfigError(problemsOf(env)).message;
    for (const name of Object.keys(env)) expect(message).toContain(name);
  });

  it("values stay out of them", () => {
    const env = { DATABASE_URL: "pg://u:hunter2@x", SAGA_AUTH: "hunter2" };
    expect(problemsOf(env).join()).not.toContain("hunter2");
  });

  it("an unknown SAGA_ name is warned about, and only that", () => {
    const env = { SAGA_WORKRS: "1", SAGA_DATADIR_FILE: "/x", OTHER: "1", SAGA_WORKERS: "1" };
    const { warnings } = loadConfig(env);
    expect(warnings.filter((warning) => warning.includes("is not a setting"))).toHaveLength(2);
    expect(warnings[0]).toBe(
      'SAGA_DATADIR_FILE is not a setting of this service (did you mean "SAGA_DATA_DIR_FILE"?) and has no effect',
    );
    expect(warnings[1]).toBe(
      'SAGA_WORKRS is not a setting of this service (did you mean "SAGA_WORKERS"?) and has no effect',
    );
    expect(loadConfig({ SAGA_ELSE: "1" }).warnings[0]).toBe(
      "SAGA_ELSE is not a setting of this service and has no effect",
    );
  });
});

describe("what is loaded", () => {
  const env = {
    DATABASE_URL: "postgres://u:hunter2@db/x?password=hunter2",
    REDIS_URL: "redis://:hunter2@r",
    AMQP_URL: "amqp://u:hunter2@q",
    SAGA_SIGNING_SECRET: "hunter2",
  };

  it("is frozen all the way down", () => {
    const { config } = loadConfig(env);
    for (const part of [config, config.limits, config.egressAllow]) expect(Object.isFrozen(part)).toBe(true);
  });

  it("shows no secret when printed, and still has them", () => {
    const { config } = loadConfig(env);
    for (const printed of [JSON.stringify(config), inspect(config), inspect({ config }, { depth: 9 })]) {
      expect(printed).not.toContain("hunter2");
      expect(printed).toContain("@db:5432/x");
    }
    expect(config.databaseUrl).toBe(env.DATABASE_URL);
    expect(config.signingSecret).toBe("hunter2");
  });
});
