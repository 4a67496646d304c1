// The page to ask at: completions, the price while one types, one press for one ask.
import { complete } from "./complete.js";
import { pricing } from "./quote.js";
import { pressedOnce } from "./press.js";

const form = document.getElementById("ask");
complete(document.getElementById("sql"), document.getElementById("suggestions"),
  document.getElementById("suggested"), form.dataset.words);
if (form.dataset.quote) pricing(form, document.getElementById("quote"));
form.addEventListener("keydown", (event) => {
  const ask = form.querySelector("button[value=ask]");
  if (event.key === "Enter" && event.ctrlKey && ask) form.requestSubmit(ask);
});
pressedOnce(form);
