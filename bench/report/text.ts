// Text of the terminal and of the report.

/** Three significant digits, or "–" where the figure is unknown. */
export function shown(figure: number | undefined): string {
  if (figure === undefined) return "–";
  if (figure === 0 || Math.abs(figure) >= 100) return Math.round(figure).toLocaleString("en");
  return Number(figure.toPrecision(3)).toString();
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Escapes text for HTML: names and notes of result files come from outside. */
export function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
