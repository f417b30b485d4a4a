// A key, the one time that it is shown: to copy by a button, with or without the browser's leave, or by hand.
import { useEffect, useRef, useState } from "react";
import type { ApiKey } from "../browser/resources.js";
import { When } from "../parts/values.js";
import { type KeyBox, showOnce } from "./shown-once.js";

const WORDS = {
  copied: "Copied.",
  refused: "The browser does not let the page copy. The key is selected: copy it by keyboard or menu.",
} as const;

export interface Made {
  readonly of: ApiKey;
  readonly box: KeyBox;
}

export function ShownKey({ of: { name, roles, expires_at }, box, onClose }: Made & { onClose: () => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [copied, setCopied] = useState<keyof typeof WORDS>();
  useEffect(() => {
    const shown = field.current;
    return shown ? showOnce(box, shown) : undefined;
  }, [box]);
  const copy = async () => setCopied((await copyFrom(field.current)) ? "copied" : "refused");
  return (
    <div className="shown-key">
      <p>
        <strong>Copy the key now: it will not be shown again.</strong> The service keeps no more of it than a hash. If
        you lose it, revoke it and make another.
      </p>
      <label>
        Key of <bdi>{name}</bdi>
        <textarea ref={field} readOnly rows={2} spellCheck={false} autoComplete="off" />
      </label>
      <p className="quiet">
        {roles.join(", ")} ·{" "}
        {expires_at === undefined ? (
          "does not expire"
        ) : (
          <>
            expires <When at={expires_at} />
          </>
        )}
      </p>
      <p role="status">{copied && WORDS[copied]}</p>
      <div className="row">
        <button type="button" className="primary" onClick={copy}>
          Copy
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </div>
  );
}

/** The clipboard's own interface exists at https addresses only, and may be denied; the old command works at a click. */
async function copyFrom(field: HTMLTextAreaElement | null): Promise<boolean> {
  if (!field) return false;
  try {
    await navigator.clipboard.writeText(field.value);
    return true;
  } catch {
    field.focus();
    field.select();
    return document.execCommand("copy");
  }
}
