// Verifies calls by the Standard Webhooks specification: that they come from the orchestrator, are complete and are recent.
import { Webhook } from "standardwebhooks";

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Without a secret every call is taken. Throws TypeError for a malformed secret. */
export function verifier(secrets: string | readonly string[] = []): (body: Buffer, headers: Headers) => boolean {
  const webhooks = [secrets].flat().map(webhookOf);
  return (body, headers) =>
    webhooks.length === 0 || webhooks.some((webhook) => isVerified(webhook, body, headers as Record<string, string>));
}

/** Reads a secret as the orchestrator does: Base64 after `whsec_`, or the text itself. */
function webhookOf(secret: string): Webhook {
  if (secret === "") throw new TypeError("a signing secret is empty");
  return secret.startsWith("whsec_") ? new Webhook(secret) : new Webhook(secret, { format: "raw" });
}

function isVerified(webhook: Webhook, body: Buffer, headers: Record<string, string>): boolean {
  try {
    webhook.verify(body, headers, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}
