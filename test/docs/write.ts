// `npm run docs`: writes the generated parts of docs/, and the table of needs of the console. It runs from `dist` and writes to the source tree.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/config/package.js";
import { NEEDS, needsModule, openApiDocument, WITH_TABLES, withFunctions, withTables } from "./generated.js";

const docs = join(packageRoot(), "docs");
const document = await openApiDocument();
writeFileSync(join(docs, "openapi.json"), `${JSON.stringify(document, null, 2)}\n`);
writeFileSync(join(packageRoot(), NEEDS), needsModule(document));
for (const path of WITH_TABLES.map((name) => join(packageRoot(), name)))
  writeFileSync(path, withTables(readFileSync(path, "utf8")));
const functions = join(docs, "functions.md");
writeFileSync(functions, withFunctions(readFileSync(functions, "utf8")));
