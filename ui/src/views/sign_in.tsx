// The form for a token, for those who have no one-time link.
import { useState } from "preact/hooks";
import { signInError, signInWithToken } from "../api/session";

export function SignIn() {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signInWithToken(token.trim());
    } catch {
      signInError.value = "The server does not answer.";
    }
    setBusy(false);
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1>
          <img src="icon.svg" alt="" width="28" height="28" /> kapiserver
        </h1>
        <p>Open the link that the server has printed at its start, or sign in with a bearer token.</p>
        {signInError.value && (
          <p class="error" role="alert">
            {signInError.value}
          </p>
        )}
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={isBusy || !token.trim()}>
          Sign in
        </button>
        <p class="hint">
          The token stays in the memory of this page. A service account gets one by{" "}
          <code>kubectl create token NAME</code>.
        </p>
      </form>
    </main>
  );
}
