// What documents and comments refer to: paths, links, settings, endpoints, npm scripts and laws. It finds references that
// lead nowhere; which files are read, and what exists, is the test's to say.
import { posix } from "node:path";
import { RETIRED } from "../../src/config/access.js";

/** What there is to refer to. */
export interface Known {
  /** All files and folders of the repository, from its root. */
  readonly paths: ReadonlySet<string>;
  readonly settings: ReadonlySet<string>;
  /** Routes as in the OpenAPI document: `/api/v1/sagas/{id}`. */
  readonly routes: ReadonlySet<string>;
  readonly scripts: ReadonlySet<string>;
  readonly laws: ReadonlySet<number>;
  /** The anchors of a Markdown file. */
  anchorsOf(path: string): readonly string[];
}

type Finder = (file: string, text: string, known: Known) => readonly string[];

const matches = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([all, first]) => first ?? all);
const withoutFences = (markdown: string) => markdown.replace(/^( *)```[\s\S]*?^\1```/gm, "");
/** Code spans go, unless they are the text of a link. */
const withoutCode = (markdown: string) => withoutFences(markdown).replace(/(?<!\[)`[^`\n]*`(?!\])/g, "");
const codeSpans = (markdown: string) => matches(withoutFences(markdown), /`([^`\n]+)`/g);

/** The anchors that GitHub makes of headings. */
export function anchorsIn(markdown: string): string[] {
  return matches(withoutFences(markdown), /^#+ (.+)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** Links of Markdown, with their anchors. */
export const brokenLinks: Finder = (file, text, { paths, anchorsOf }) =>
  matches(withoutCode(text), /\]\(\s*([^)\s]+)\s*\)/g).filter((target) => {
    if (/^https?:/.test(target)) return false;
    const [path = "", anchor] = target.split("#");
    const found = path === "" ? file : posix.normalize(posix.join(posix.dirname(file), path)).replace(/\/$/, "");
    return !paths.has(found) || (anchor !== undefined && !anchorsOf(found).includes(anchor));
  });

const FOLDERS = /^(src|machines|test|docs|bench|examples|\.ci|\.github)\//;
const FILE = /^[\w./-]*[\w-]\.(ts|mjs|md|json|sql|proto|yml)$/;
/** Written by the build or the service, or a name of the user's own. */
const NOT_OURS = /^(dist|node_modules|\.saga)\b|[*<>…$ ]/;

/** The project that the documents for newcomers are about. */
const NEW_PROJECT = "src/sdk/create/template";

function exists(name: string, folder: string, paths: ReadonlySet<string>): boolean {
  const from = [folder, ".", "src", posix.dirname(folder), NEW_PROJECT];
  return from.some((base) => paths.has(posix.normalize(posix.join(base, name)).replace(/\/$/, "")));
}

/** Anywhere below the folder of a room. */
function existsBelow(name: string, folder: string, paths: ReadonlySet<string>): boolean {
  return folder !== "." && [...paths].some((path) => path.startsWith(`${folder}/`) && path.endsWith(`/${name}`));
}

/** The only file of its name in the tree: its folder need not be said. */
function isUnique(name: string, paths: ReadonlySet<string>): boolean {
  return [...paths].filter((path) => path.endsWith(`/${name}`)).length === 1;
}

/** Paths in code spans: from the root, from `src`, from the folder above the document's, or below its own. */
export const missingPaths: Finder = (file, text, { paths }) =>
  codeSpans(text)
    .filter((span) => (FOLDERS.test(span) || FILE.test(span)) && !NOT_OURS.test(span))
    .filter((span) => !exists(span, posix.dirname(file), paths))
    .filter((span) => !existsBelow(span, posix.dirname(file), paths) && !isUnique(span, paths));

const comments = (source: string) => matches(source, /(?:^|\s)(\/\/[^\n]*|\/\*[\s\S]*?\*\/)/g);

const FILE_NAME = /(?<![\w/.@*<-])((?:[\w.-]+\/)*[\w.-]+\.(?:ts|mjs|md|sql|proto))\b/g;
const FROM_ROOT = /(?<![\w/.@*<-])((?:src|machines|docs|test|bench|examples)\/[\w/-]+)(?![\w/-]*[.*{])/g;

/** Files and folders that comments name. A file's name alone may be anywhere in the tree. */
export const missingInComments: Finder = (file, source, { paths }) => {
  const names = [...paths].map((path) => `/${path}`);
  return comments(source)
    .flatMap((comment) => [...matches(comment, FILE_NAME), ...matches(comment, FROM_ROOT)])
    .filter((name) => !NOT_OURS.test(name))
    .filter((name) => !exists(name, posix.dirname(file), paths) && !names.some((path) => path.endsWith(`/${name}`)));
};

/** Settings of the command, of the example's own worker, and of the tests. */
const OF_TESTS = [
  "SAGA_TEST_ACCESS",
  "SAGA_TEST_BUILT",
  "SAGA_TEST_TALLY",
  "SAGA_TEST_SCREENSHOTS",
  "SAGA_TEST_MUTANTS",
  "SAGA_TEST_SHARD",
  "SAGA_TEST_HOST_FAULTS",
  "SAGA_TEST_WEEK_MINUTES",
  "SAGA_TEST_IMPORT_CORPUS",
  "SAGA_TEST_MACHINES",
  "SAGA_TEST_SEED",
  "SAGA_TEST_HOSTS_ROOT",
  "SAGA_TEST_HOSTS_LOGS",
  "SAGA_TEST_WEEK_MINUTES",
];
/** The documents say what has become of the retired ones, and of those that a later release has. */
const ELSEWHERE = [...Object.keys(RETIRED), "SAGA_AUTH_JWKS_URL", "SAGA_AUTH_JWKS_FILE"];
const OTHER_SETTINGS = new Set([
  "SAGA_GRPC",
  "SAGA_URL",
  "SAGA_TOKEN",
  "SAGA_TOKEN_FILE",
  "SAGA_API",
  ...OF_TESTS,
  ...ELSEWHERE,
]);

export const unknownSettings: Finder = (_file, text, { settings }) =>
  matches(text, /\b(?:SAGA|REDIS|AMQP|DATABASE|HTTP|GRPC|LOG)_[A-Z_]*[A-Z]\b/g).filter(
    (name) => !settings.has(name.replace(/_FILE$/, "")) && !settings.has(name) && !OTHER_SETTINGS.has(name),
  );

/** Served beside the document, and not in it. */
const OTHER_ROUTES = ["/", "/console", "/docs", "/openapi.json"];
/** The volume of the image. */
const NO_ROUTE = "/data";
const ROUTE = /\/api\/v1(?:\/(?:[\w.~-]+|\{\w+\}|<[^>\n]+>|\$\w+))+/g;
const SPAN_WITH_METHOD = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|WS) (\/[^?\s]*)/g;

/** Routes anywhere in the text, and code spans that begin with a method or are the last part of a run's route. */
export const unknownRoutes: Finder = (_file, text, { routes }) => {
  const shape = (route: string) => route.replace(/\{\w+\}|<[^>]+>|\$\w+/g, "{}").replace(/[/.]+$/, "");
  const shapes = new Set([...routes, ...OTHER_ROUTES].map(shape));
  const spans = codeSpans(text);
  const named = [
    ...matches(text, ROUTE),
    ...spans.flatMap((span) => matches(span, SPAN_WITH_METHOD)),
    ...spans.filter((span) => /^\/[a-z_]+$/.test(span) && span !== NO_ROUTE),
  ];
  return named.filter((route) => !shapes.has(shape(route)) && !shapes.has(`/api/v1/sagas/{}${route}`));
};

export const unknownScripts: Finder = (_file, text, { scripts }) =>
  matches(text, /npm (?:run (?:-s )?(?=\S)|(?=start|test))([a-z][a-z:]*)/g).filter((name) => !scripts.has(name));

/** `law 6`, `laws 6 and 7`, `laws 1 to 5`: each number that is named. */
export const unknownLaws: Finder = (_file, text, { laws }) =>
  matches(text, /\blaws? (\d+(?:(?:, | and | to )\d+)*)/gi)
    .flatMap((numbers) => numbers.match(/\d+/g) ?? [])
    .filter((number) => !laws.has(Number(number)))
    .map((number) => `law ${number}`);
