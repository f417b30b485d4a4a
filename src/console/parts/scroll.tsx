// What is wider than a narrow page, such as a table: it scrolls by itself, and can be reached by keyboard to be scrolled. On a phone each row
// of a table is a block of lines, each with the name of its column.
import { type ReactNode, useEffect, useRef } from "react";

interface ScrollProps {
  readonly label: string;
  /** The class of its own look. */
  readonly className?: string;
  readonly children: ReactNode;
}

export function Scroll({ label, className = "", children }: ScrollProps) {
  const host = useRef<HTMLDivElement>(null);
  // After each drawing: there may be other rows.
  useEffect(() => nameCells(host.current));
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <div ref={host} className={`scroll ${className}`} role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}

/** A style cannot read the head of a column. A head that is hidden names nothing. */
function nameCells(host: HTMLElement | null): void {
  for (const table of host?.querySelectorAll("table") ?? []) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    if (heads.length === 0) continue;
    for (const row of table.tBodies[0]?.rows ?? [])
      for (const [nth, cell] of [...row.cells].entries())
        cell.dataset.column = heads[nth]?.querySelector(".hidden") ? "" : (heads[nth]?.textContent ?? "");
  }
}
