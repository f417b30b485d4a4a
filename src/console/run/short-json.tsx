// A value in a cell of a table: its JSON in a line, and in full when it is opened.
import { Json } from "../parts/values.js";

const MAX_SHORT = 120;

export function ShortJson({ value, label }: { value: unknown; label: string }) {
  const text = JSON.stringify(value) ?? "";
  if (text.length <= MAX_SHORT) return <code className="value">{text}</code>;
  return (
    <details>
      <summary>
        <code className="value">{text.slice(0, MAX_SHORT)}…</code>
      </summary>
      <Json value={value} label={label} />
    </details>
  );
}
