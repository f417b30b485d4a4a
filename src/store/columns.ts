// The types of columns, as the driver sends and reads them.
import { customType, timestamp, uuid } from "drizzle-orm/pg-core";
import type { Json, RunId } from "../../machines/index.js";

export const runId = (name: string) => uuid(name).$type<RunId>();
export const time = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });

/** The driver parses JSON, and takes JSON text (connection.ts). drizzle's own type would parse a value that is a string once more. */
export const jsonType = (dataType: "json" | "jsonb") =>
  customType<{ data: Json; driverData: unknown }>({
    dataType: () => dataType,
    toDriver: (value) => JSON.stringify(value),
  });
export const json = jsonType("json");
export const xid8 = customType<{ data: string }>({ dataType: () => "xid8" });
export const jsonb = jsonType("jsonb");
