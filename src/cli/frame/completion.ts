// `saga completion`: scripts that complete commands, options and their choices in bash, zsh and fish, made of the table. They ask no service.
import { EXIT, type ExitCode } from "../exit.js";
import type { Completable, Context } from "./context.js";
import type { OptionEntry } from "./option.js";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(shell: Shell, commands: readonly Completable[]): string {
  if (shell === "bash") return bash(commands);
  return shell === "zsh" ? zsh(commands) : fish(commands);
}

/** The forms of an option: `-o`, `--output`. */
export const flagsOf = ({ flags }: OptionEntry): readonly string[] => flags.match(/(?<![\w-])--?[a-z][a-z-]*/g) ?? [];

/** The words that may follow, by the words before: "" has the first ones, "key" those of `saga key`. */
function wordsAfter(commands: readonly Completable[]): ReadonlyMap<string, readonly string[]> {
  const after = new Map<string, Set<string>>();
  for (const { name } of commands) {
    const words = name.split(" ");
    words.forEach((word, index) => {
      const before = words.slice(0, index).join(" ");
      after.set(before, (after.get(before) ?? new Set()).add(word));
    });
  }
  return new Map([...after].map(([before, words]) => [before, [...words]]));
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

function bash(commands: readonly Completable[]): string {
  const words = [...wordsAfter(commands)].map(
    ([before, after]) => `    ${quoted(before)}) words=${quoted(after.join(" "))} ;;`,
  );
  const options = commands.map(
    ({ name, options }) =>
      `    ${quoted(name)}) options=${quoted(["--help", ...options.flatMap(flagsOf)].join(" "))} ;;`,
  );
  const choices = commands.flatMap(({ name, options }) =>
    options
      .filter(({ choices }) => choices)
      .map((option) => {
        const patterns = flagsOf(option).map((flag) => quoted(`${name} ${flag}`));
        return `    ${patterns.join("|")}) choices=${quoted((option.choices ?? []).join(" "))} ;;`;
      }),
  );
  return `# Completion of the command saga for bash. Put \`source <(saga completion bash)\` into ~/.bashrc.
_saga() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local command= word words= options= choices=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && break
    case "\${command:+$command }$word" in
${commandPatterns(commands)}) command="\${command:+$command }$word" ;;
    *) break ;;
    esac
  done
  case "$command $previous" in
${choices.join("\n")}
  esac
  if [[ -n $choices ]]; then
    COMPREPLY=($(compgen -W "$choices" -- "$current"))
    return
  fi
  case "$command" in
${options.join("\n")}
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
    return
  fi
  case "$command" in
${words.join("\n")}
  esac
  if [[ -n $words && ( $previous == saga || $previous == "\${command##* }" ) ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _saga saga`;
}

/** Every beginning of a command. */
function commandPatterns(commands: readonly Completable[]): string {
  const beginnings = new Set(
    commands.flatMap(({ name }) => {
      const words = name.split(" ");
      return words.map((_, index) => words.slice(0, index + 1).join(" "));
    }),
  );
  return `    ${[...beginnings].map(quoted).join("|")}`;
}

/** zsh runs the functions of bash by bashcompinit, which is part of it. */
const zsh = (commands: readonly Completable[]) =>
  `#compdef saga
# Completion of the command saga for zsh. Put \`source <(saga completion zsh)\` into ~/.zshrc, behind compinit.
autoload -U +X bashcompinit && bashcompinit
${bash(commands).split("\n").slice(1).join("\n")}`;

function fish(commands: readonly Completable[]): string {
  const lines = commands.flatMap(({ name, summary, options }) => {
    const words = name.split(" ");
    const last = words.at(-1) ?? "";
    const before = words.slice(0, -1).join(" ");
    const isNext =
      before === ""
        ? "__fish_use_subcommand"
        : `__fish_seen_subcommand_from ${before}; and test (count (commandline -opc)) -eq ${words.length}`;
    const isIn = `string match -q -- ${fishQuoted(`saga ${name}*`)} (string join ' ' -- (commandline -opc))`;
    return [
      `complete -c saga -f -n ${fishQuoted(isNext)} -a ${fishQuoted(last)} -d ${fishQuoted(summary)}`,
      ...options.map((option) => fishOption(option, isIn)),
    ];
  });
  const groups = [...wordsAfter(commands).keys()].filter(
    (before) => before !== "" && !commands.some(({ name }) => name === before),
  );
  const heads = groups.map((before) => `complete -c saga -f -n __fish_use_subcommand -a ${fishQuoted(before)}`);
  return [
    "# Completion of the command saga for fish. Put `saga completion fish | source` into ~/.config/fish/config.fish.",
    ...heads,
    ...lines,
  ].join("\n");
}

const fishQuoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

function fishOption(option: OptionEntry, isIn: string): string {
  const names = flagsOf(option).map((flag) => (flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
  const value = option.choices
    ? ` -x -a ${fishQuoted(option.choices.join(" "))}`
    : option.flags.includes("<")
      ? " -r"
      : "";
  return `complete -c saga -n ${fishQuoted(isIn)} ${names.join(" ")}${value} -d ${fishQuoted(option.says)}`;
}

export async function completion(context: Context): Promise<ExitCode | undefined> {
  const shell = SHELLS.find((each) => each === context.argument(0));
  if (!shell) throw context.wrong(`there is completion for ${SHELLS.join(", ")}`);
  context.terminal.print(completionScript(shell, context.commands));
  return EXIT.succeeded;
}
