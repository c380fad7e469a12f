import { render } from "preact";

import { App } from "./shell/app";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/charts.css";
import "./style/trace.css";
import "./style/touch.css";

render(<App />, document.getElementById("app")!);
