// `npm run docs`: writes what generated.ts makes into docs/. It runs from `dist`; the files it writes are the sources'.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/store/migrate.js";
import { openApiDocument, WITH_TABLES, withStepTables } from "./generated.js";

const docs = join(packageRoot(), "docs");
writeFileSync(join(docs, "openapi.json"), `${JSON.stringify(await openApiDocument(), null, 2)}\n`);
for (const path of WITH_TABLES.map((name) => join(packageRoot(), name)))
  writeFileSync(path, withStepTables(readFileSync(path, "utf8")));
