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
import { type OwnServer, startOwnServer } from "../harness/own-server.js";
import { freePorts } from "../harness/ports.js";
import { ownExchange } from "../harness/rabbitmq.js";
import { describeWithRabbitMq, describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { type Container, type Env, ImageRoot, NEXT_VERSION, readDockerfile, seesNext } from "./image.js";

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

/** The address of a pod, as clients of the cluster have it. The pods of the tests have others. */
const POD_IP = "10.9.8.7";

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef: { readonly fieldPath: string } };
}

/** As the kubelet makes it: fields of the pod, and `$(NAME)` for what is before. */
function environmentOf(variables: readonly Variable[]): ReadonlyMap<string, string> {
  const known = new Map<string, string>();
  for (const { name, value = "", valueFrom } of variables) {
    if (valueFrom) expect(valueFrom.fieldRef.fieldPath).toBe("status.podIP");
    const expanded = value.replace(/\$\((\w+)\)/g, (text, given) => known.get(given) ?? text);
    known.set(name, valueFrom ? POD_IP : expanded);
  }
  return known;
}

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
    const mounts = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
    expect(mounts).toContain(env.SAGA_DATA_DIR);
    // The root is read-only, and the last words of nodes are in a temporary file.
    expect(mounts).toContain(env.TMPDIR);
    expect(container.securityContext.readOnlyRootFilesystem).toBe(true);
  });
});

describeWithRedis("what the Deployment runs", (redisUrl) => {
  describeWithRabbitMq("with RabbitMQ", (amqpUrl) => {
    let database: OwnServer;
    let root: ImageRoot;
    let env: Env;
    const pods: Pod[] = [];

    beforeAll(async () => {
      database = await startOwnServer({ migrated: true });
      root = ImageRoot.layOut();
      const secrets = root.at("run/secrets/saga");
      mkdirSync(secrets, { recursive: true });
      const files: Env = {
        ...{ "database-url": database.url, "redis-url": redisUrl, "amqp-url": amqpUrl },
        ...{ "bus-key": "b".repeat(32), "callback-key": "c".repeat(32) },
      };
      for (const [name, text] of Object.entries(files)) {
        // As `defaultMode` and `fsGroup` leave it.
        writeFileSync(join(secrets, name), text);
        chmodSync(join(secrets, name), 0o440);
        if (process.getuid?.() === 0) chownSync(join(secrets, name), 0, 1_000);
      }
      env = {
        ...Object.fromEntries(environmentOf(container.env)),
        // What the tests need of their own.
        ...{ HOST: "0.0.0.0", REDIS_PREFIX: `${ownExchange()}:`, SAGA_EVENTS_EXCHANGE: ownExchange() },
      };
    });
    afterAll(async () => {
      for (const { container } of pods) container.kill();
      await database.stop();
    });

    interface Pod {
      readonly http: number;
      readonly container: Container;
    }

    /** Each has an address of its own in a cluster, and here ports of its own. Ready, as the kubelet finds it. */
    async function pod(image: ImageRoot): Promise<Pod> {
      const [http = 0, grpc = 0] = await freePorts(2);
      const own = { ...env, HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
      const started = { http, container: image.container({ env: own, mounts: root }).start() };
      pods.push(started);
      const ready = async () => !started.container.isRunning || (await probe(started, "startupProbe")) === 200;
      await until(ready, { what: "the startup probe" });
      expect(started.container.isRunning, started.container.output).toBe(true);
      return started;
    }

    /** As the kubelet asks: by the address of the pod, with the headers of the probe. */
    const probe = ({ http }: Pod, name: "startupProbe" | "readinessProbe" | "livenessProbe"): Promise<number> =>
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

    /** As Prometheus asks: by the address of the pod, with a key for that alone. */
    async function scrape({ http, container }: Pod): Promise<number> {
      const key = await container.run(["saga", "key", "create", "--name", "prometheus", "--roles", "scrape"]);
      const headers = { host: `${POD_IP}:8080`, authorization: `Bearer ${key.trim()}` };
      return new Promise((resolve, reject) => {
        const asked = get({ host: "127.0.0.1", port: http, path: "/metrics", headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        asked.on("error", reject);
      });
    }

    interface Cluster {
      readonly nodes: readonly { readonly version?: string }[];
    }

    /** As a new operator: with a key that the command in the pod has made. */
    async function cluster({ http, container }: Pod): Promise<Cluster> {
      const key = await container.run(["saga", "key", "create", "--name", "ops", "--roles", "platform,admin"]);
      const headers = { authorization: `Bearer ${key.trim()}` };
      return (await (await fetch(`http://127.0.0.1:${http}/api/v1/cluster`, { headers })).json()) as Cluster;
    }

    const nodesOf = async (pod: Pod) => (await cluster(pod)).nodes.length;
    const versionOf = async (pod: Pod) => (await cluster(pod)).nodes.find(({ version }) => version)?.version;

    it("starts from the files of the image, is ready by its probes, makes keys, writes to its data alone, and drains on SIGTERM", async () => {
      const before = root.contents();
      const only = await pod(root);
      expect([await probe(only, "readinessProbe"), await probe(only, "livenessProbe")]).toEqual([200, 200]);
      expect(await scrape(only)).toBe(200);
      await only.container.healthy();
      expect(await until(async () => (await nodesOf(only)) === 2, { what: "both nodes" })).toBe(true);
      expect(await only.container.stop(), only.container.output).toBe(0);
      expect(root.contents()).toEqual(before);
      // Any other would be of a setting that it does not know, or of a file that others may read.
      const troubles = only.container.output.split("\n").filter((line) => /"level":"(warn|error)"/.test(line));
      expect(troubles.filter((line) => !line.includes("SAGA_AUTH is on without TLS"))).toEqual([]);
    });

    it("is upgraded and taken back as the strategy says: a pod of the other release is ready before one ends", async () => {
      expect(deployment?.spec.strategy.rollingUpdate).toEqual({ maxUnavailable: 0, maxSurge: 1 });
      const next = await ImageRoot.layOutNext();
      let running = [await pod(root), await pod(root)];
      const own = (await versionOf(running[0] as Pod)) ?? "";
      for (const [image, version] of [[next, NEXT_VERSION] as const, [root, own] as const]) {
        for (const old of running) {
          const surge = await pod(image);
          expect(await versionOf(surge)).toBe(version);
          expect(await old.container.stop(), old.container.output).toBe(0);
          running = [...running.filter((pod) => pod !== old), surge];
        }
      }
      await until(async () => (await nodesOf(running[0] as Pod)) === 4, { what: "the nodes of both pods" });
      await seesNext(database.sql);
      for (const { container } of running) expect(await container.stop(), container.output).toBe(0);
    });
  });
});
