import { render } from "preact";
import { openSession } from "./api/session";
import { App } from "./app";
import "./style.css";

render(<App />, document.getElementById("app")!);
void openSession();
