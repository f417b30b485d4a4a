// A field for free JSON: the text that a person writes, and what is wrong with it. It knows no schema.
import { useEffect, useId, useRef, useState } from "react";
import "./form.css";

export interface JsonFieldProps {
  readonly label: string;
  /** What the field begins with. */
  readonly value?: unknown;
  /** Called with each value that can be parsed; undefined if the field is empty. */
  readonly onChange: (value: unknown) => void;
  readonly rows?: number;
}

/** A form around it cannot be submitted while the text is no JSON. */
export function JsonField({ label, value, onChange, rows = 8 }: JsonFieldProps) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const parsed = parse(text);
  useEffect(() => field.current?.setCustomValidity(parsed.error ?? ""), [parsed.error]);
  const change = (next: string) => {
    setText(next);
    const { error, value } = parse(next);
    if (error === undefined) onChange(value);
  };
  const described = parsed.error !== undefined && { "aria-invalid": true, "aria-describedby": `${id}-error` };
  return (
    <div className="json-field">
      <label htmlFor={id}>{label}</label>
      <textarea
        {...{ id, rows, spellCheck: false, value: text, ref: field, ...described }}
        onChange={({ target }) => change(target.value)}
      />
      <p id={`${id}-error`} className="misfit" aria-live="polite">
        {parsed.error}
      </p>
    </div>
  );
}

function parse(text: string): { value?: unknown; error?: string } {
  if (text.trim() === "") return {};
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: `This is not JSON: ${(error as Error).message}` };
  }
}
