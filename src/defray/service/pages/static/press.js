// A form is sent once for each press: a double click sends nothing more.
export function pressedOnce(form) {
  let sent = false;
  const buttons = () => form.querySelectorAll("button");
  form.addEventListener("submit", (event) => {
    if (sent) {
      event.preventDefault();
      return;
    }
    sent = true;
    buttons().forEach((button) => button.setAttribute("aria-disabled", "true"));
  });
  addEventListener("pageshow", () => { // also when one comes back to the page
    sent = false;
    buttons().forEach((button) => button.removeAttribute("aria-disabled"));
  });
}
