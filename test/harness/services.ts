// Suites that need an outside service. A suite whose service is missing is skipped by name; under CI=true the closing line makes
// that a failure.
import { describe, inject } from "vitest";
import type { Form } from "./forms.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** The form of the suite that the test runs in: the name of its project. */
    form: Form;
    databaseUrl: string;
    /** The name of the migrated database that test databases are copies of. */
    databaseTemplate: string;
    /** Its schema, hashed. */
    databaseSchema: string;
    /** The beginning of the names of the test databases of this run. */
    databasePrefix: string;
    /** Empty: missing or unreachable. */
    redisUrl: string;
    amqpUrl: string;
  }
}

export const describeWithRedis = (name: string, suite: (url: string) => void) =>
  describeWith(inject("redisUrl"), `${name} (needs Redis at REDIS_URL)`, suite);

export const describeWithRabbitMq = (name: string, suite: (url: string) => void) =>
  describeWith(inject("amqpUrl"), `${name} (needs RabbitMQ at AMQP_URL)`, suite);

function describeWith(url: string, name: string, suite: (url: string) => void): void {
  describe.skipIf(url === "")(name, () => suite(url));
}
