// What a view shows when it has nothing else: an error, a wait, or that there is nothing.
import type { ComponentChildren } from "preact";
import { ApiError } from "../api/client";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div class="empty" role="status">
      <span class="spinner" aria-hidden="true" />
      <p>Loading {what}…</p>
    </div>
  );
}

export function ErrorBox({ error, title }: { error: unknown; title?: string }) {
  const isApiError = error instanceof ApiError;
  return (
    <div class="error" role="alert">
      <strong>{title ?? (isApiError && error.reason) ?? "Error"}</strong>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {isApiError && error.causes.length > 0 && (
        <ul>
          {error.causes.map((cause) => (
            <li key={`${cause.field} ${cause.message}`}>
              {cause.field && <code>{cause.field}</code>} {cause.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
