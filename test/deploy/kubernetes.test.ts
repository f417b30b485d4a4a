// The image and the manifests of docs/deploy: the manifests are what Kubernetes takes, and what they run starts, is ready, and drains, with their files,
// command, user, environment, probes and secrets.
// @module-tag long
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { packageRoot } from "../../src/config/package.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { freePorts } from "../harness/ports.js";
import { ownExchange } from "../harness/rabbitmq.js";
import { describeWithRabbitMq, describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { ImageRoot, readDockerfile } from "./image.js";

const FOLDER = join(packageRoot(), "docs", "deploy", "kubernetes");

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  // biome-ignore lint/suspicious/noExplicitAny: a manifest has any form; the types of Kubernetes check it below.
  readonly [member: string]: any;
}

const read = (file: string) =>
  parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((document) => document.toJS() as Manifest);
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml"));
const manifests = FILES.filter((name) => name !== "kustomization.yaml").flatMap(read);
const [deployment] = read("deployment.yaml");
const pod = deployment?.spec.template.spec;
const [container] = pod?.containers ?? [];

/** Where the types of an API are. */
const moduleOf = (apiVersion: string) => `kubernetes-types/${apiVersion === "v1" ? "core/v1" : apiVersion}`;

describe("the manifests", () => {
  it("have the members that Kubernetes knows, and no other", () => {
    const folder = mkdtempSync(join(packageRoot(), "dist", "manifests-"));
    try {
      const modules = manifests.map(
        (manifest, nth) =>
          `import type { ${manifest.kind} as T${nth} } from "${moduleOf(manifest.apiVersion)}";\nexport const m${nth}: T${nth} = ${JSON.stringify(manifest)};`,
      );
      const wrong = JSON.stringify({ ...deployment, spec: { ...deployment?.spec, replica: 2 } });
      const head = `import type { Deployment } from "${moduleOf("apps/v1")}";\n`;
      writeFileSync(join(folder, "manifests.ts"), modules.join("\n"));
      writeFileSync(join(folder, "wrong.ts"), `${head}export const wrong: Deployment = ${wrong};`);
      const check = (file: string) =>
        execFileSync(
          "npx",
          [
            "tsc",
            "--noEmit",
            "--ignoreConfig",
            "--strict",
            "--skipLibCheck",
            ...["--module", "esnext", "--moduleResolution", "bundler"],
            join(folder, file),
          ],
          {
            ...{ cwd: packageRoot(), encoding: "utf8", stdio: "pipe" },
          },
        );
      expect(check("manifests.ts")).toBe("");
      expect(() => check("wrong.ts")).toThrow();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("are all of the kustomization, but for the example of a worker, and there", () => {
    const [kustomization] = read("kustomization.yaml");
    const listed = [...(kustomization?.resources ?? []), "kustomization.yaml", "worker-autoscaling.yaml"];
    expect(FILES).toEqual(listed.sort());
  });

  it("name each other as they are: labels, ports, secrets, targets", () => {
    const [kustomization] = read("kustomization.yaml");
    const labels = deployment?.spec.template.metadata.labels;
    const ports = container.ports.map(({ name }: { name: string }) => name);
    for (const { kind, spec, metadata } of manifests) {
      if (kind === "Service") {
        expect(labels).toMatchObject(spec.selector);
        for (const { targetPort } of spec.ports) expect(ports).toContain(targetPort);
      }
      if (kind === "PodDisruptionBudget" || kind === "Deployment")
        expect(labels).toMatchObject(spec.selector.matchLabels);
      if (kind === "HorizontalPodAutoscaler" && metadata.name === "saga")
        expect(spec.scaleTargetRef).toEqual({
          apiVersion: "apps/v1",
          kind: "Deployment",
          name: deployment?.metadata.name,
        });
    }
    const keys = kustomization?.secretGenerator[0].files.map((file: string) => file.split("=")[0]);
    const read_ = container.env.filter(({ name }: { name: string }) => name.endsWith("_FILE"));
    expect(read_.map(({ value }: { value: string }) => value)).toEqual(
      keys.map((key: string) => `/run/secrets/saga/${key}`),
    );
    expect(container.image).toBe(kustomization?.images[0].name);
  });

  it("run as the image does: its user, its ports, its folder of data", () => {
    const { base, user, env } = readDockerfile();
    expect([base, user, pod.securityContext.runAsUser]).toEqual(["node:24-slim", "node", 1_000]);
    expect(container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)).toContain(
      env.SAGA_DATA_DIR,
    );
    expect(container.securityContext.readOnlyRootFilesystem).toBe(true);
  });
});

describeWithRedis("what the Deployment runs", (redisUrl) => {
  describeWithRabbitMq("with RabbitMQ", (amqpUrl) => {
    let database: TestDatabase;
    let root: ImageRoot;
    let env: Record<string, string>;
    let http: number;

    beforeAll(async () => {
      database = await createTestDatabase({ max: 2 });
      root = ImageRoot.layOut();
      const secrets = root.at("/run/secrets/saga");
      mkdirSync(secrets, { recursive: true });
      const files: Readonly<Record<string, string>> = {
        ...{ "database-url": database.url, "redis-url": redisUrl, "amqp-url": amqpUrl },
        ...{ "bus-key": "b".repeat(32), "callback-key": "c".repeat(32) },
      };
      for (const [name, text] of Object.entries(files)) {
        // As `defaultMode` and `fsGroup` leave it.
        writeFileSync(join(secrets, name), text);
        chmodSync(join(secrets, name), 0o440);
        if (process.getuid?.() === 0) chownSync(join(secrets, name), 0, 1_000);
      }
      const [httpPort = 0, grpcPort = 0] = await freePorts(2);
      http = httpPort;
      env = {
        ...Object.fromEntries(container.env.map(({ name, value }: { name: string; value: string }) => [name, value])),
        // What the tests need of their own.
        ...{ HTTP_PORT: String(httpPort), GRPC_PORT: String(grpcPort), HOST: "0.0.0.0" },
        ...{ REDIS_PREFIX: `${ownExchange()}:`, SAGA_EVENTS_EXCHANGE: ownExchange() },
      };
    });
    afterAll(() => database.drop());

    /** As the kubelet asks: by the address of the pod, with the headers of the probe. */
    const probe = (name: "startupProbe" | "readinessProbe" | "livenessProbe"): Promise<number> =>
      new Promise((resolve, reject) => {
        const { path, httpHeaders } = container[name].httpGet;
        const headers = Object.fromEntries(
          httpHeaders.map(({ name, value }: { name: string; value: string }) => [name, value]),
        );
        const asked = get({ host: "127.0.0.1", port: http, path, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        asked.on("error", reject);
      });

    it("starts from the files of the image, is ready by its probes, makes keys, writes to its data alone, and drains on SIGTERM", async () => {
      const before = root.contents();
      const service = root.start(env);
      let output = "";
      for (const stream of [service.stdout, service.stderr]) stream?.on("data", (text) => (output += text));
      const exit = new Promise<number | null>((resolve) => service.once("exit", resolve));
      try {
        const started = async () => {
          if (service.exitCode !== null) return "ended";
          return (await probe("startupProbe")) === 200 && "ready";
        };
        expect(await until(started, { within: 60_000 }), output).toBe("ready");
        expect([await probe("readinessProbe"), await probe("livenessProbe")]).toEqual([200, 200]);
        await root.run(readDockerfile().healthCheck, env);
        const key = await root.run(
          ["node", "dist/service/cli/main.js", "key", "create", "--name", "ops", "--roles", "platform,admin"],
          env,
        );
        const headers = { authorization: `Bearer ${key.trim()}` };
        const nodes = async () => {
          const answer = await fetch(`http://127.0.0.1:${http}/api/v1/cluster`, { headers });
          return ((await answer.json()) as { readonly nodes: readonly unknown[] }).nodes.length === 2;
        };
        await until(nodes, { what: "both nodes" });
        service.kill("SIGTERM");
        expect(await exit, output).toBe(0);
      } finally {
        // Its nodes, too, if the primary has not ended them.
        if (service.exitCode === null) process.kill(-(service.pid ?? Number.NaN), "SIGKILL");
      }
      expect(root.contents()).toEqual(before);
      // Any other would be of a setting that it does not know, or of a file that others may read.
      const troubles = output.split("\n").filter((line) => /"level":"(warn|error)"/.test(line));
      expect(troubles.filter((line) => !line.includes("SAGA_AUTH is on without TLS"))).toEqual([]);
    });
  });
});
