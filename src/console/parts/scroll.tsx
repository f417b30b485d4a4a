// What is wider than a narrow page, such as a table: it scrolls by itself, and can be reached by keyboard to be scrolled.
import type { ReactNode } from "react";

export const Scroll = ({ label, children }: { label: string; children: ReactNode }) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields
  // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
  <div className="scroll" role="group" aria-label={label} tabIndex={0}>
    {children}
  </div>
);
