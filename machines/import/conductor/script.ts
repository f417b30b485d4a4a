// The JavaScript of a Conductor workflow as CEL: one expression, or a function that only decides what to return. A program has no equivalent.
import { member, quoted } from "../cel.js";
import { NoEquivalent } from "../report.js";

/** The CEL of `$.name`. Undefined: there is nothing of this name. */
export type Resolve = (name: string) => string;

export interface Script {
  readonly cel: string;
  /** The same as a condition, as JavaScript takes a value for one. */
  readonly truth: string;
  /** It has comparisons that convert their operands in JavaScript, and do not here. */
  readonly loose: boolean;
}

interface Value {
  readonly cel: string;
  readonly type: "bool" | "other";
}

const TOKEN =
  /\s*(?:(\d+(?:\.\d+)?)|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|([A-Za-z_$][\w$]*)|(===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,;()[\]{}]))/y;

/** Throws NoEquivalent. */
export function scriptOf(text: string, resolve: Resolve): Script {
  const reader = new Reader(text, resolve);
  const value = reader.program();
  return { cel: value.cel, truth: truthOf(value), loose: reader.loose };
}

const truthOf = ({ cel, type }: Value): string => (type === "bool" ? cel : `!(${cel} in [null, false, 0, ""])`);

class Reader {
  loose = false;
  private readonly tokens: string[] = [];
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly resolve: Resolve,
  ) {
    for (TOKEN.lastIndex = 0; text.slice(TOKEN.lastIndex).trim() !== ""; ) {
      const found = TOKEN.exec(text);
      if (!found) throw this.none();
      this.tokens.push(found[0].trim());
    }
  }

  program(): Value {
    const value = this.wrapped() ?? this.body();
    while (this.taken(";"));
    if (this.at !== this.tokens.length) throw this.none();
    return value;
  }

  /** `(function () { … })()`, or `function f() { … } f()`. */
  private wrapped(): Value | undefined {
    const all = this.tokens.join(" ");
    const [open, close] = all.startsWith("( function (")
      ? ["( function ( ) {", "} ) ( )"]
      : [/^function \w+ \( \) \{/.exec(all)?.[0] ?? "", ""];
    if (open === "") return undefined;
    this.at = open.split(" ").length;
    const value = this.body();
    this.need("}");
    if (close !== "") for (const token of close.split(" ").slice(1)) this.need(token);
    else for (const token of [open.split(" ")[1] ?? "", "(", ")"]) this.need(token);
    return value;
  }

  /** Statements that end in a value: `if` with a value on both ways, `return`, or an expression. */
  private body(): Value {
    if (!this.taken("if")) {
      this.taken("return");
      const value = this.expression();
      while (this.taken(";"));
      return value;
    }
    this.need("(");
    const test = truthOf(this.expression());
    this.need(")");
    const then = this.block();
    const otherwise = this.taken("else") ? this.block() : this.body();
    return {
      cel: `(${test} ? ${then.cel} : ${otherwise.cel})`,
      type: then.type === otherwise.type ? then.type : "other",
    };
  }

  private block(): Value {
    if (!this.taken("{")) return this.body();
    const value = this.body();
    this.need("}");
    return value;
  }

  private expression(): Value {
    const test = this.either();
    if (!this.taken("?")) return test;
    const then = this.expression();
    this.need(":");
    const otherwise = this.expression();
    return {
      cel: `(${truthOf(test)} ? ${then.cel} : ${otherwise.cel})`,
      type: then.type === otherwise.type ? then.type : "other",
    };
  }

  private either(): Value {
    return this.logical("||", () => this.logical("&&", () => this.equal()));
  }

  /** Of two conditions it is one, too. Of other values it would be one of them, which CEL does not have. */
  private logical(sign: string, operand: () => Value): Value {
    let left = operand();
    while (this.taken(sign)) {
      const right = operand();
      if (left.type !== "bool" || right.type !== "bool") throw this.none();
      left = { cel: `(${left.cel} ${sign} ${right.cel})`, type: "bool" };
    }
    return left;
  }

  private equal(): Value {
    const left = this.relation();
    const sign = this.takenOne(["===", "!==", "==", "!="]);
    if (sign === undefined) return left;
    if (sign.length === 2) this.loose = true;
    return { cel: `(${left.cel} ${sign.slice(0, 2)} ${this.relation().cel})`, type: "bool" };
  }

  private relation(): Value {
    const left = this.sum();
    const sign = this.takenOne(["<=", ">=", "<", ">"]);
    if (sign !== undefined) this.loose = true;
    return sign === undefined ? left : { cel: `(${left.cel} ${sign} ${this.sum().cel})`, type: "bool" };
  }

  private sum(): Value {
    return this.computed(["+", "-"], () => this.computed(["*", "/", "%"], () => this.unary()));
  }

  private computed(signs: readonly string[], operand: () => Value): Value {
    let left = operand();
    for (let sign = this.takenOne(signs); sign !== undefined; sign = this.takenOne(signs)) {
      const right = operand();
      // A whole number is a double in JavaScript: 10 / 4 is 2.5.
      const cel = sign === "/" ? `(double(${left.cel}) / double(${right.cel}))` : `(${left.cel} ${sign} ${right.cel})`;
      left = { cel, type: "other" };
    }
    return left;
  }

  private unary(): Value {
    if (this.taken("!")) return { cel: `!(${truthOf(this.unary())})`, type: "bool" };
    if (this.taken("-")) return { cel: `-(${this.unary().cel})`, type: "other" };
    return this.members(this.primary());
  }

  private members(value: Value): Value {
    let { cel } = value;
    for (;;) {
      if (this.taken(".")) {
        const name = this.next();
        if (!/^[A-Za-z_]\w*$/.test(name) || this.peek() === "(") throw this.none();
        // A member that is missing is undefined there; that of null is an error in both.
        cel = name === "length" ? `size(${cel})` : maybe(cel, name);
      } else if (this.taken("[")) {
        const name = this.peek() ?? "";
        const index = this.expression().cel;
        this.need("]");
        cel = /^['"]/.test(name) && index === quoted(textOf(name)) ? maybe(cel, textOf(name)) : `${cel}[${index}]`;
      } else return cel === value.cel ? value : { cel, type: "other" };
    }
  }

  private primary(): Value {
    const token = this.next();
    if (token === "(") {
      const value = this.expression();
      this.need(")");
      return value;
    }
    if (token === "$") return this.root();
    if (token === "{") return this.object();
    if (token === "[") return this.list();
    if (token === "true" || token === "false") return { cel: token, type: "bool" };
    if (token === "null" || /^\d/.test(token)) return { cel: token, type: "other" };
    if (/^['"]/.test(token)) return { cel: quoted(textOf(token)), type: "other" };
    throw this.none();
  }

  private root(): Value {
    const bracket = this.taken("[");
    if (!bracket) this.need(".");
    const name = this.next();
    if (bracket) this.need("]");
    if (this.peek() === "(") throw this.none();
    return { cel: this.resolve(bracket ? textOf(name) : name), type: "other" };
  }

  private object(): Value {
    const members: string[] = [];
    while (!this.taken("}")) {
      const name = this.next();
      this.need(":");
      members.push(`${quoted(/^['"]/.test(name) ? textOf(name) : name)}: ${this.expression().cel}`);
      if (this.peek() !== "}") this.need(",");
    }
    return { cel: `{${members.join(", ")}}`, type: "other" };
  }

  private list(): Value {
    const items: string[] = [];
    while (!this.taken("]")) {
      items.push(this.expression().cel);
      if (this.peek() !== "]") this.need(",");
    }
    return { cel: `[${items.join(", ")}]`, type: "other" };
  }

  private peek(): string | undefined {
    return this.tokens[this.at];
  }

  private next(): string {
    const token = this.tokens[this.at++];
    if (token === undefined) throw this.none();
    return token;
  }

  private taken(token: string): boolean {
    if (this.tokens[this.at] !== token) return false;
    this.at++;
    return true;
  }

  private takenOne(tokens: readonly string[]): string | undefined {
    const token = this.tokens[this.at];
    if (token === undefined || !tokens.includes(token)) return undefined;
    this.at++;
    return token;
  }

  private need(token: string): void {
    if (!this.taken(token)) throw this.none();
  }

  private none(): NoEquivalent {
    const token = this.tokens[Math.min(this.at, this.tokens.length - 1)] ?? "";
    return new NoEquivalent(
      "a script",
      `only one expression can be translated, and \`${this.text.slice(0, 60)}\` is more (at \`${token}\`)`,
    );
  }
}

const maybe = (cel: string, name: string): string =>
  `cel.bind(v, ${cel}, type(v) == map && !(${quoted(name)} in v) ? null : ${member("v", name)})`;

const textOf = (token: string): string => token.slice(1, -1).replace(/\\(.)/g, "$1");
