// What is wider than a narrow page, such as a table: it scrolls by itself, and can be reached by keyboard to be scrolled.
import type { ReactNode } from "react";

interface ScrollProps {
  readonly label: string;
  /** Of its own look. */
  readonly className?: string;
  readonly children: ReactNode;
}

export const Scroll = ({ label, className = "", children }: ScrollProps) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields
  // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
  <div className={`scroll ${className}`} role="group" aria-label={label} tabIndex={0}>
    {children}
  </div>
);
