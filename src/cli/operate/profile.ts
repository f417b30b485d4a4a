// `saga profile`: services by name. A token is read from standard input or typed without an echo, never from the command line, where others could
// see it.
import { readCommandSettings } from "../../config/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { checkedName, checkedUrl, type Profile, readProfiles, writeProfiles } from "../frame/profiles.js";
import { table } from "../frame/text.js";

const fileOf = () => readCommandSettings().settings.profilesFile;

export async function set(context: Context): Promise<ExitCode | undefined> {
  const name = checkedName(context.argument(0));
  const url = context.text("url");
  if (url === undefined) throw context.wrong("--url is needed: the address of the service");
  const address = checkedUrl(url);
  const path = fileOf();
  const { current, profiles } = await readProfiles(path);
  const token = context.flag("withoutToken") ? "" : await tokenIn(context);
  const profile: Profile = { url: address, ...(token !== "" && { token }) };
  await writeProfiles(path, { current: current ?? name, profiles: { ...profiles, [name]: profile } });
  const isCurrent = current === undefined || current === name;
  context.terminal.note(
    `profile ${name} is ${address}${isCurrent ? ", the current one" : `: saga profile use ${name} makes it the current one`}`,
  );
  return EXIT.succeeded;
}

async function tokenIn({ terminal }: Context): Promise<string> {
  const text = terminal.isInteractive
    ? await terminal.ask("Token (empty: none): ", { secret: true })
    : await terminal.readInput("the token");
  const token = text.trim();
  if (/\s/.test(token)) throw new Failure("a token is one word: nothing was stored");
  return token;
}

export async function use(context: Context): Promise<ExitCode | undefined> {
  const name = context.argument(0);
  const path = fileOf();
  const { profiles } = await readProfiles(path);
  if (!Object.hasOwn(profiles, name)) throw new Failure(`there is no profile ${name}: saga profile list`);
  await writeProfiles(path, { current: name, profiles });
  context.terminal.note(`profile ${name} is the current one`);
  return EXIT.succeeded;
}

export async function remove(context: Context): Promise<ExitCode | undefined> {
  const name = context.argument(0);
  const path = fileOf();
  const { current, profiles } = await readProfiles(path);
  if (!Object.hasOwn(profiles, name)) throw new Failure(`there is no profile ${name}: saga profile list`);
  const { [name]: _, ...left } = profiles;
  await writeProfiles(path, { ...(current !== undefined && current !== name && { current }), profiles: left });
  context.terminal.note(`profile ${name} is removed; its token still counts until it is revoked`);
  return EXIT.succeeded;
}

/** Tokens are not shown. */
export async function list(context: Context): Promise<ExitCode | undefined> {
  const { current, profiles } = await readProfiles(fileOf());
  const all = Object.entries(profiles).map(([name, { url, token }]) => ({
    ...{ name, url, has_token: token !== undefined, current: name === current },
  }));
  const { terminal } = context;
  if (context.json) terminal.printJson(all);
  else if (all.length === 0) terminal.note("saga: there is no profile: saga profile set NAME --url URL");
  else {
    const columns = [{ title: "PROFILE" }, { title: "URL", least: 20 }, { title: "TOKEN" }, { title: "" }];
    const rows = all.map((each) => [
      { text: each.name },
      { text: each.url },
      { text: each.has_token ? "yes" : "no" },
      { text: each.current ? "current" : "" },
    ]);
    terminal.print(table(columns, rows, terminal.width).join("\n"));
  }
  return EXIT.succeeded;
}
