// What users give to the SDK is checked before anything is connected to. The compiler says most of it to a program in TypeScript; a program in
// plain JavaScript would run with a misspelt member that does not count, or repeat a request that can never work.
import { refuseUnknown } from "../contract/index.js";

/** What workers have in common, whatever their transport. */
interface WorkerBasics {
  readonly service: string;
  readonly api: string;
}

/** Throws TypeError. The types promise what is checked here. */
export function checkWorker(options: WorkerBasics, known: object): void {
  refuseUnknown("a worker", options, known);
  const { service, api }: Partial<WorkerBasics> = options;
  if (typeof service !== "string" || service === "")
    throw new TypeError('service must be the name before the dot, such as "shop" in "shop.charge"');
  if (typeof api !== "string" || !/^https?:/i.test(api) || !URL.canParse(api))
    throw notAn("api", 'an http: or https: URL, such as "http://127.0.0.1:8080"', api);
}

/** An address of gRPC has no scheme of HTTP; others, such as `dns:`, are the library's. Throws TypeError. */
export function checkGrpc(given: string | readonly string[] | undefined): void {
  const addresses: readonly unknown[] = Array.isArray(given) ? given : [given];
  const isAddress = (one: unknown) => typeof one === "string" && one !== "" && !/^https?:/i.test(one);
  if (addresses.length === 0 || !addresses.every(isAddress))
    throw notAn("grpc", 'one or several "host:port", such as "127.0.0.1:9090"', given);
}

function notAn(member: string, expected: string, given: unknown): TypeError {
  return new TypeError(
    `${member} must be ${expected}, and it is ${given === undefined ? "missing" : JSON.stringify(given)}`,
  );
}
