// A field for JSON text. It shows a fault or a hint below; what the text says is for its page to check.
import { type Ref, useId } from "react";
import "./fields.css";

interface JsonFieldProps {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly fault?: string | undefined;
  readonly hint?: string | undefined;
  readonly rows?: number;
  readonly ref?: Ref<HTMLTextAreaElement>;
}

export function JsonField({ label, text, onChange, fault, hint, rows = 6, ref }: JsonFieldProps) {
  const id = useId();
  return (
    <div className="json-text">
      <label>
        {label}
        <textarea
          ref={ref}
          value={text}
          rows={rows}
          spellCheck={false}
          autoComplete="off"
          aria-invalid={fault !== undefined || undefined}
          aria-describedby={id}
          onChange={({ target }) => onChange(target.value)}
        />
      </label>
      <p id={id} aria-live="polite" className={fault === undefined ? "quiet" : "fault"}>
        {fault ?? hint}
      </p>
    </div>
  );
}
