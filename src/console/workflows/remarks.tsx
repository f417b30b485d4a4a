// The problems and the warnings of a definition, each with its path. Pressing one shows its step.
import type { Remark } from "./sketch.js";

/** What `POST /workflows/validate` answers. */
export interface Report {
  readonly valid: boolean;
  readonly errors: readonly Remark[];
  readonly warnings: readonly Remark[];
}

const MAX_SHOWN = 100;

interface Props {
  readonly of: Report;
  readonly onSelect: (path: string) => void;
}

export function Remarks({ of: { valid, errors, warnings }, onSelect }: Props) {
  return (
    <div role="status">
      {valid && <p className="valid">The definition is valid.</p>}
      <Listed name="Problems" of={errors} onSelect={onSelect} />
      <Listed name="Warnings" of={warnings} onSelect={onSelect} />
    </div>
  );
}

function Listed({ name, of, onSelect }: { name: string; of: readonly Remark[]; onSelect: Props["onSelect"] }) {
  if (of.length === 0) return null;
  return (
    <section aria-label={name} className={name === "Problems" ? "refused" : "warned"}>
      <h3>
        {name} ({of.length})
      </h3>
      <ul>
        {of.slice(0, MAX_SHOWN).map(({ path, message }) => (
          <li key={`${path} ${message}`}>
            <button type="button" className="plain" onClick={() => onSelect(path)}>
              <code>{path}</code>
            </button>{" "}
            {message}
          </li>
        ))}
      </ul>
      {of.length > MAX_SHOWN && <p>{of.length - MAX_SHOWN} more are not listed.</p>}
    </section>
  );
}
