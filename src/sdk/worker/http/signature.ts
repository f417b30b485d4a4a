// Verifies calls by the Standard Webhooks specification: that they come from the orchestrator, are complete, are recent, and are meant for
// this worker's service. Without a secret it lets every call pass.
import { Webhook } from "standardwebhooks";
import type { CallMessage } from "../callback/message.js";

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export class Verifier {
  private readonly webhooks: readonly Webhook[];

  /** Throws TypeError for a malformed secret. */
  constructor(
    private readonly service: string,
    secrets: string | readonly string[] = [],
  ) {
    this.webhooks = [secrets].flat().map(webhookOf);
  }

  isSigned(body: Buffer, headers: Headers): boolean {
    const { webhooks } = this;
    return webhooks.length === 0 || webhooks.some((webhook) => isVerified(webhook, body, headers));
  }

  /**
   * Why a signed message is no call of this service. One of another service, or a webhook, may be signed with the same secret, where an
   * operator gave one secret to several.
   */
  strayed({ service, dispatch_id: dispatchId }: CallMessage, headers: Headers): string | undefined {
    if (this.webhooks.length === 0) return undefined;
    if (service !== this.service) return "the call is not for this service";
    return dispatchId === headers["webhook-id"] ? undefined : "the call's dispatch_id is not its webhook-id";
  }
}

/** Reads a secret as the orchestrator does: Base64 after `whsec_`, or the bytes of the text itself. */
function webhookOf(secret: string): Webhook {
  if (secret === "") throw new TypeError("a signing secret is empty");
  if (!secret.startsWith("whsec_")) return new Webhook(new TextEncoder().encode(secret), { format: "raw" });
  try {
    return new Webhook(secret);
  } catch {
    throw new TypeError("a signing secret must have Base64 after whsec_");
  }
}

function isVerified(webhook: Webhook, body: Buffer, headers: Headers): boolean {
  try {
    webhook.verify(body, headers as Record<string, string>, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}
