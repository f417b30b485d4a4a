// `saga graph`: the chart of a workflow as a Mermaid state diagram, of a file or of a published version. It draws no picture.
import { compileWorkflow, mermaidOf, Schemas } from "../../../machines/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { safe } from "../frame/text.js";
import { isFile, load } from "./load.js";

export async function graph(context: Context): Promise<ExitCode | undefined> {
  const what = context.argument(0);
  const diagrams = isFile(what) ? await ofFile(what, context) : [await published(context, what)];
  if (context.json) context.terminal.printJson(diagrams);
  else context.terminal.print(diagrams.map(({ mermaid }) => mermaid).join("\n\n"));
  return EXIT.succeeded;
}

interface Diagram {
  readonly id: string;
  readonly mermaid: string;
}

async function ofFile(path: string, context: Context): Promise<readonly Diagram[]> {
  const { documents } = await load([path], context);
  const schemas = new Schemas();
  return documents
    .filter(({ kind }) => kind === "workflow")
    .map(({ id, document, from }) => {
      const { program, problems } = compileWorkflow(document, {
        schemaProblems: (schema) => schemas.problems(schema),
      });
      if (program) return { id, mermaid: mermaidOf(program.chart) };
      const lines = problems.map(({ path: at, message }) => `  ${from}: ${safe(`${at} ${message}`)}`);
      throw new Failure(`${from} has no chart, because it is not valid:\n${lines.join("\n")}`, EXIT.failed);
    });
}

async function published(context: Context, id: string): Promise<Diagram> {
  const service = await context.service();
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  const query = { format: "mermaid", ...(version !== undefined && { version }) };
  return { id, mermaid: await service.text(`/workflows/${encodeURIComponent(id)}/machine`, query) };
}
