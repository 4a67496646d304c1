// Shows how far an ask has come, and its answer when it is there.
const place = document.getElementById("follow");
const bar = document.getElementById("progress");
const EVERY = 700; // ms
const BUSY = [429, 503]; // asked too often, or not to be had: looked at again

async function look() {
  try {
    const answer = await fetch(place.dataset.progress, { headers: { Accept: "application/json" } });
    if (!BUSY.includes(answer.status)) {
      const job = answer.ok ? await answer.json() : { state: "gone" };
      if (job.state !== "running") {
        location.reload();
        return;
      }
      bar.value = job.progress;
    }
  } catch {
    document.getElementById("state").textContent = "The server cannot be reached; trying again.";
  }
  setTimeout(look, EVERY);
}

setTimeout(look, EVERY);
