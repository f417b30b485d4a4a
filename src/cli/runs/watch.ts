// `saga watch`: a run as it goes. On a terminal it is a tree that is drawn again and again, in a pipe lines that are appended, with -o json one JSON
// value a line. The run does not know that it is watched.
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import type { Service } from "../frame/service.js";
import { widthOf } from "../frame/text.js";
import { Follower, type Happened } from "./follow.js";
import { exitOf, hasEnded, stateOf, styleOf } from "./run.js";
import { errorText, runLines } from "./show.js";
import { eventLine, treeLines } from "./tree.js";
import { late } from "./wait.js";

const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";
/** To the beginning of a line so many lines above, and everything below is erased. */
const upAndErase = (lines: number) => `\r${lines > 0 ? `\u001b[${lines}A` : ""}\u001b[J`;

export async function watch(context: Context): Promise<ExitCode | undefined> {
  const timeoutMs = context.duration("timeout");
  return watchRun(context, await context.service(), context.argument(0), timeoutMs);
}

/** Ends with the run. Throws Failure with 4 if it has not ended in time, with 130 after Ctrl-C. */
export async function watchRun(
  context: Context,
  service: Service,
  id: string,
  timeoutMs: number | undefined,
): Promise<ExitCode> {
  const until = timeoutMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
  const follower = await Follower.of(service, id);
  const view = viewOf(context, follower);
  try {
    for (;;) {
      view.show(await follower.read());
      if (hasEnded(follower.run)) break;
      if (Date.now() >= until) throw late(follower.run);
      await follower.wait(until - Date.now());
      context.goOn();
    }
  } catch (error) {
    view.close();
    if (context.signal.aborted) {
      context.terminal.note(`saga: run ${follower.run.id} goes on: saga watch ${follower.run.id}`);
      throw new Failure("interrupted", EXIT.interrupted);
    }
    throw error;
  }
  // What happened between the last event that was read and the end of the run.
  view.show(await follower.read());
  view.close();
  view.end();
  return exitOf(follower.run);
}

interface View {
  show(news: readonly Happened[]): void;
  /** Gives the terminal back. */
  close(): void;
  /** The last word. */
  end(): void;
}

function viewOf(context: Context, follower: Follower): View {
  const { terminal } = context;
  if (context.json)
    return {
      show: (news) => {
        for (const { event } of news) terminal.printJsonLine(event);
      },
      close: () => {},
      end: () => terminal.printJsonLine(follower.run),
    };
  if (terminal.isLive) return new LiveTree(context, follower);
  return {
    show: (news) => {
      for (const { event, path } of news) terminal.print(eventLine(event, path));
    },
    close: () => {},
    end: () => terminal.print(runLines(follower.run, terminal).join("\n")),
  };
}

const FRAME_MS = 500;

/** Draws the tree over itself. A tree higher than the terminal shows its end, and all of it at the end. */
class LiveTree implements View {
  private drawn = 0;
  private readonly timer: NodeJS.Timeout;
  private readonly draw = () => this.redraw();

  constructor(
    private readonly context: Context,
    private readonly follower: Follower,
  ) {
    this.context.terminal.streams.stdout.write(HIDE_CURSOR);
    this.context.terminal.streams.stdout.on("resize", this.draw);
    // Durations go on while nothing happens.
    this.timer = setInterval(this.draw, FRAME_MS);
    process.once("exit", giveCursorBack);
  }

  show(): void {
    this.redraw();
  }

  close(): void {
    clearInterval(this.timer);
    this.context.terminal.streams.stdout.off("resize", this.draw);
    process.off("exit", giveCursorBack);
    this.redraw(Number.POSITIVE_INFINITY);
    this.context.terminal.streams.stdout.write(SHOW_CURSOR);
  }

  end(): void {
    const { terminal } = this.context;
    const { run } = this.follower;
    if (run.error) terminal.print(terminal.paint("red", errorText(run.error)));
    else if (run.output !== undefined && run.output !== null) terminal.print(JSON.stringify(run.output, null, 2));
    else terminal.print(terminal.paint(styleOf(run.state), stateOf(run)));
  }

  private redraw(height = this.context.terminal.height - 1): void {
    const { terminal } = this.context;
    const { width } = terminal;
    const lines = treeLines(this.follower.watched, {
      now: Date.now(),
      width,
      paint: (style, text) => terminal.paint(style, text),
    });
    const shown = lines.slice(-Math.max(1, height));
    this.context.terminal.streams.stdout.write(`${upAndErase(this.drawn)}${shown.join("\n")}\n`);
    // A terminal that became narrower wraps what was written before.
    this.drawn = shown.reduce((sum, each) => sum + Math.max(1, Math.ceil(widthOf(each) / width)), 0);
  }
}

function giveCursorBack(): void {
  process.stdout.write(SHOW_CURSOR);
}
