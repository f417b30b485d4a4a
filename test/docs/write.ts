// `npm run docs`: writes the generated parts of docs/, the schemas of documents, the table of needs of the console, the client's types, and the documents of
// the examples. It runs from `dist` and writes to the source tree.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/config/package.js";
import { BOARDS } from "./boards.js";
import { clientModules } from "./client-operations.js";
import { DEFINED, documentPath, sagaOf } from "./definitions.js";
import {
  editorSchemas,
  NEEDS,
  needsModule,
  openApiDocument,
  WITH_TABLES,
  withCommands,
  withFunctions,
  withTables,
} from "./generated.js";

const docs = join(packageRoot(), "docs");
const document = await openApiDocument();
writeFileSync(join(docs, "openapi.json"), `${JSON.stringify(document, null, 2)}\n`);
writeFileSync(join(packageRoot(), NEEDS), needsModule(document));
for (const [path, text] of Object.entries(clientModules(document))) writeFileSync(join(packageRoot(), path), text);
for (const path of WITH_TABLES.map((name) => join(packageRoot(), name)))
  writeFileSync(path, withTables(readFileSync(path, "utf8")));
mkdirSync(join(docs, "schemas"), { recursive: true });
for (const [name, schema] of Object.entries(editorSchemas()))
  writeFileSync(join(docs, "schemas", name), `${JSON.stringify(schema, null, 2)}\n`);
const functions = join(docs, "functions.md");
writeFileSync(functions, withFunctions(readFileSync(functions, "utf8")));
const commands = join(docs, "cli.md");
writeFileSync(commands, withCommands(readFileSync(commands, "utf8")));
for (const [name, board] of Object.entries(BOARDS))
  writeFileSync(join(docs, "monitoring", name), `${JSON.stringify(board, null, 2)}\n`);
for (const name of DEFINED) writeFileSync(documentPath(name), `${JSON.stringify(await sagaOf(name), null, 2)}\n`);
