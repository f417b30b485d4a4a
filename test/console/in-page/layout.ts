// What is wrong with how a page is laid out, as sentences: what is cut, covered, torn or out of line. It runs in the page, in any browser, and
// knows no page of ours. `layout-faults.ts` brings it there; what can only be judged by eye is in the pictures.

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Browsers round, and letters reach a little over their lines. */
const SLACK = 1.5;
/** A line of text may be lower than its letters. */
const LINE_SLACK = 5;
/** No person reads more of them at once. */
const MOST = 12;

const CONTROLS = "a[href], button, input, select, textarea, summary, [role=button], [role=slider]";
/** Its content is moved by hand: what is out of its sight is not lost, and what lies upon it may cover it. */
const CANVASES = ".react-flow";

export function layoutFaults(): readonly string[] {
  // Of dialogs, the last one lies above the others.
  const dialogs = [...document.querySelectorAll("dialog[open]")];
  const scope = document.querySelector(":popover-open") ?? dialogs.at(-1) ?? document.body;
  const texts = textsOf(scope);
  const controls = [...scope.querySelectorAll(CONTROLS)].filter(isSeen);
  return [
    ...sideways(),
    ...[scope, ...scope.querySelectorAll("*")].flatMap(unreachable),
    ...texts.flatMap(cut),
    ...texts.flatMap(torn),
    ...texts.flatMap(touching),
    ...covered(texts),
    ...overlapping(controls.filter((control) => !control.closest(CHARTS))),
    ...controls.flatMap(cutField),
    ...controls.flatMap(squashed),
    ...crowded(controls),
    ...[...scope.querySelectorAll(".row")].filter(isSeen).flatMap(outOfLine),
  ].slice(0, MOST);
}

const sideways = () => {
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth > clientWidth ? [`the page scrolls sideways by ${scrollWidth - clientWidth} px`] : [];
};

/** Of bars over time, an attempt lies upon its step. */
const CHARTS = ".track";

const PHONE_PX = 720;

/** What a person with a keyboard cannot bring into sight, and tables on a phone, which are lists there. */
function unreachable(element: Element): readonly string[] {
  if (element.scrollWidth - element.clientWidth <= 1 || element.clientWidth === 0) return [];
  if (!scrolls(getComputedStyle(element), "overflowX") || element.matches("textarea, select") || !isSeen(element))
    return [];
  const over = element.scrollWidth - element.clientWidth;
  const isTable = innerWidth <= PHONE_PX && element.querySelector(":scope > table") !== null;
  if ((element as HTMLElement).tabIndex >= 0 && !isTable) return [];
  return [`${named(element)} scrolls sideways by ${over} px`];
}

function isSeen(element: Element): boolean {
  const style = { opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true };
  if (!element.checkVisibility(style) || element.closest("[inert]")) return false;
  const { width, height, right, bottom } = element.getBoundingClientRect();
  // What is for screen readers is one pixel large, or beside the page.
  return width > 1 && height > 1 && right > 0 && bottom + scrollY > 0;
}

/** A text with the element that it is in. */
interface Text {
  readonly node: globalThis.Text;
  readonly parent: Element;
  readonly lines: readonly Box[];
}

function textsOf(scope: Element): readonly Text[] {
  const walker = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) {
    const node = walker.currentNode as globalThis.Text;
    const parent = node.parentElement;
    if (!parent || node.data.trim() === "" || parent.closest("textarea, option, script, style, .hidden, .skip"))
      continue;
    if (!isSeen(parent) || isClippedAway(parent)) continue;
    texts.push({ node, parent, lines: linesOf(node) });
  }
  return texts;
}

/** Of a head that is kept for screen readers. */
const isClippedAway = (element: Element): boolean => {
  for (let at: Element | null = element; at; at = at.parentElement)
    if (getComputedStyle(at).clipPath.startsWith("inset(50%")) return true;
  return false;
};

function linesOf(node: Node, from?: number, to?: number): readonly Box[] {
  const range = document.createRange();
  range.selectNodeContents(node);
  if (from !== undefined && to !== undefined) {
    range.setStart(node, from);
    range.setEnd(node, to);
  }
  return [...range.getClientRects()].filter(({ width, height }) => width > 0 && height > 0);
}

const around = (boxes: readonly Box[]): Box => ({
  left: Math.min(...boxes.map(({ left }) => left)),
  top: Math.min(...boxes.map(({ top }) => top)),
  right: Math.max(...boxes.map(({ right }) => right)),
  bottom: Math.max(...boxes.map(({ bottom }) => bottom)),
});

const scrolls = (style: CSSStyleDeclaration, axis: "overflowX" | "overflowY") => /auto|scroll/.test(style[axis]);
const hides = (style: CSSStyleDeclaration, axis: "overflowX" | "overflowY") => /hidden|clip/.test(style[axis]);

/** A box that is seen as one: what leaves it is seen to leave it. */
function isDrawn(style: CSSStyleDeclaration): boolean {
  const hasGround = !/^rgba\(.*, 0\)$|^transparent$/.test(style.backgroundColor);
  return (
    hasGround ||
    ["Top", "Right", "Bottom", "Left"].some(
      (side) => style.getPropertyValue(`border-${side.toLowerCase()}-width`) !== "0px",
    )
  );
}

/** Says that a text ends where its box does, without dots or a tip that has the rest. */
function cut({ node, parent, lines }: Text): readonly string[] {
  if (lines.length === 0) return [];
  const text = around(lines);
  const block = blockOf(parent);
  const scroller = ancestors(parent).find((at) => scrolls(getComputedStyle(at), "overflowX"));
  for (let at: Element | null = parent; at && at !== document.body; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (at.matches(CANVASES) || scrolls(style, "overflowX") || scrolls(style, "overflowY")) return [];
    if (style.display === "inline" || style.display === "contents") continue;
    const box = at.getBoundingClientRect();
    const over = Math.max(box.left - text.left, text.right - box.right);
    const below = Math.max(box.top - text.top, text.bottom - box.bottom);
    const isOwn = at === block && !scroller;
    const isHidden = hides(style, "overflowX") || hides(style, "overflowY");
    if (isHidden && (at.closest("[title]") || style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none"))
      return [];
    if (over > SLACK && (isHidden || isDrawn(style) || isOwn))
      return [`${said(node)} leaves ${named(at)} by ${Math.round(over)} px sideways`];
    if (below > LINE_SLACK && (isHidden || isDrawn(style)))
      return [`${said(node)} leaves ${named(at)} by ${Math.round(below)} px in height`];
    if (style.position === "absolute" || style.position === "fixed") return [];
  }
  return [];
}

const ancestors = (element: Element): readonly Element[] => {
  const all: Element[] = [];
  for (let at: Element | null = element; at && at !== document.body; at = at.parentElement) all.push(at);
  return all;
};

function blockOf(element: Element): Element | null {
  let at: Element | null = element;
  while (at && /^(inline|contents)$/.test(getComputedStyle(at).display)) at = at.parentElement;
  return at;
}

/** Letters keep away from a line beside them. */
const LEAST_PADDING = 2.5;

function touching({ node, parent, lines }: Text): readonly string[] {
  const [first] = lines;
  const framed = ancestors(parent).find((at) => Number.parseFloat(getComputedStyle(at).borderLeftWidth) > 0);
  if (!first || !framed || framed.closest(CANVASES) || scrolled(parent, framed)) return [];
  const { left } = framed.getBoundingClientRect();
  const padding = around(lines).left - left - Number.parseFloat(getComputedStyle(framed).borderLeftWidth);
  return padding >= 0 && padding < LEAST_PADDING ? [`${said(node)} touches the line of ${named(framed)}`] : [];
}

/** Whether something between them was scrolled sideways. */
const scrolled = (from: Element, to: Element): boolean =>
  ancestors(from).some((at) => to.contains(at) && at.scrollLeft > 0);

/** A number and its unit, or a plain word. Ids, paths and code may be divided where they must be. */
const WHOLE =
  /\d[\d.,]*\s(?:[AP]M|ms|s|min|h|d|%|[KMG]?B)(?![\p{L}\d])|(?<![\p{L}\d_./:$@-])\p{L}{2,18}(?![\p{L}\d_./:$@=-])/gu;
/** The space between them must not be one where a line may end. */
function torn({ node, parent, lines }: Text): readonly string[] {
  if (new Set(lines.map(({ top }) => Math.round(top))).size < 2) return [];
  return [...node.data.matchAll(WHOLE)].flatMap(([whole], nth, all) => {
    const from = all[nth] as unknown as { index: number };
    const tops = linesOf(node, from.index, from.index + whole.length).map(({ top }) => Math.round(top));
    return Math.max(...tops) - Math.min(...tops) > LINE_SLACK ? [`"${whole}" is torn apart in ${named(parent)}`] : [];
  });
}

/** What is left of a box in the boxes from an element outwards that scroll or hide; nothing where it is out of their sight. */
function visible(box: Box, from: Element | null): Box | undefined {
  let { left, top, right, bottom } = box;
  for (let at = from; at && at !== document.body; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (style.overflowX === "visible" && style.overflowY === "visible") continue;
    const frame = at.getBoundingClientRect();
    [left, right] = [Math.max(left, frame.left), Math.min(right, frame.right)];
    [top, bottom] = [Math.max(top, frame.top), Math.min(bottom, frame.bottom)];
  }
  return right - left > SLACK && bottom - top > SLACK ? { left, top, right, bottom } : undefined;
}

const both = (one: Box, other: Box): readonly [number, number] => [
  Math.min(one.right, other.right) - Math.max(one.left, other.left),
  Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top),
];

interface Placed {
  readonly element: Element;
  readonly box: Box;
  readonly name: string;
}

/** Pairs whose boxes share more than a rounding, but not one within the other's element, nor one upon a canvas. */
function pairs(placed: readonly Placed[], shares: readonly [number, number]): readonly (readonly [Placed, Placed])[] {
  const sorted = [...placed].sort((one, other) => one.box.top - other.box.top);
  return sorted.flatMap((one, nth) => {
    const found: (readonly [Placed, Placed])[] = [];
    for (const other of sorted.slice(nth + 1)) {
      if (other.box.top >= one.box.bottom) break;
      const [across, down] = both(one.box, other.box);
      if (across <= shares[0] || down <= shares[1]) continue;
      if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
      if (layerOf(one.element) !== layerOf(other.element)) continue;
      found.push([one, other]);
    }
    return found;
  });
}

/** What lies above the page, or on a canvas, is no neighbour of what lies beneath. */
function layerOf(element: Element): Element | undefined {
  for (let at: Element | null = element; at; at = at.parentElement) {
    if (/^(fixed|sticky)$/.test(getComputedStyle(at).position) || at.matches(".react-flow__panel")) return at;
  }
  return undefined;
}

function covered(texts: readonly Text[]): readonly string[] {
  const placed = texts.flatMap(({ node, parent, lines }) =>
    lines.flatMap((line) => {
      const box = visible(line, parent);
      return box ? [{ element: parent, box, name: said(node) }] : [];
    }),
  );
  return pairs(placed, [3, LINE_SLACK]).map(([one, other]) => `${one.name} and ${other.name} lie upon each other`);
}

function overlapping(controls: readonly Element[]): readonly string[] {
  const placed = controls.flatMap((element) =>
    [...element.getClientRects()].flatMap((line) => {
      const box = visible(line, element.parentElement);
      return box ? [{ element, box, name: named(element) }] : [];
    }),
  );
  return pairs(placed, [SLACK, LINE_SLACK]).map(([one, other]) => `${one.name} and ${other.name} overlap`);
}

/** The choice or the hint of a field that is wider than the field. */
function cutField(element: Element): readonly string[] {
  const text = element.matches("select")
    ? (element as HTMLSelectElement).selectedOptions[0]?.text
    : element.matches("input:placeholder-shown")
      ? (element as HTMLInputElement).placeholder
      : undefined;
  if (text === undefined || text === "") return [];
  const style = getComputedStyle(element);
  const pen = document.createElement("canvas").getContext("2d");
  if (!pen) return [];
  pen.font = style.font;
  const inner = element.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight);
  const over = pen.measureText(text).width - inner;
  return over > SLACK ? [`"${text}" is cut by ${Math.round(over)} px in ${named(element)}`] : [];
}

/** Less is no button that a finger finds. */
const LEAST_BUTTON = 16;

function squashed(element: Element): readonly string[] {
  if (
    !element.matches("button, .button") ||
    element.closest(`${CANVASES}, ${CHARTS}`) ||
    !isDrawn(getComputedStyle(element))
  )
    return [];
  const { width, height } = element.getBoundingClientRect();
  const size = `${Math.round(width)} × ${Math.round(height)} px`;
  return Math.min(width, height) < LEAST_BUTTON ? [`${named(element)} is squashed to ${size}`] : [];
}

/** A finger takes two buttons that are nearer to each other for one. */
const LEAST_GAP = 4;

function crowded(controls: readonly Element[]): readonly string[] {
  const boxes = controls.filter(isFramed).map((element) => ({ element, box: element.getBoundingClientRect() }));
  return boxes.flatMap(({ element, box }, nth) =>
    boxes.slice(nth + 1).flatMap((other) => {
      const [across, down] = both(box, other.box);
      // Below zero, it is the gap between them.
      const gap = -Math.min(across, down);
      const isBeside = Math.max(across, down) > SLACK && gap >= 0 && gap < LEAST_GAP;
      return isBeside && layerOf(element) === layerOf(other.element)
        ? [`${named(element)} and ${named(other.element)} are ${Math.round(gap)} px apart`]
        : [];
    }),
  );
}

/** A button with a line around it. */
function isFramed(element: Element): boolean {
  const { borderTopWidth, borderLeftWidth } = getComputedStyle(element);
  const isButton = element.matches("button, .button") && !element.closest(`${CANVASES}, ${CHARTS}`);
  return isButton && borderTopWidth !== "0px" && borderLeftWidth !== "0px";
}

/** Fields and buttons of one line begin and end at one height. */
function outOfLine(row: Element): readonly string[] {
  const controls = [...row.children].map((child) =>
    child.matches("label") ? (child.querySelector("input, select") ?? child) : child,
  );
  const boxes = controls
    .filter((control) => control.matches("input:not([type=checkbox]), select, button, .button"))
    .filter(isSeen);
  return boxes.flatMap((control, nth) => {
    const before = boxes[nth - 1];
    if (!before) return [];
    const [one, other] = [before.getBoundingClientRect(), control.getBoundingClientRect()];
    const isOneLine = both({ ...one.toJSON(), left: 0, right: 1 }, { ...other.toJSON(), left: 0, right: 1 })[1] > 0;
    const apart = Math.max(Math.abs(one.top - other.top), Math.abs(one.bottom - other.bottom));
    return isOneLine && apart > SLACK
      ? [`${named(before)} and ${named(control)} are out of line by ${Math.round(apart)} px`]
      : [];
  });
}

const said = (node: globalThis.Text): string => `"${node.data.trim().replace(/\s+/g, " ").slice(0, 40)}"`;

function named(element: Element): string {
  const name = element.getAttribute("aria-label") ?? element.textContent?.trim().replace(/\s+/g, " ") ?? "";
  const classes = [...element.classList].map((one) => `.${one}`).join("");
  return `${element.tagName.toLowerCase()}${classes}${name === "" ? "" : ` (${name.slice(0, 30)})`}`;
}
