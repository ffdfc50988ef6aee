"""Drives the dashboard of a node in Debian's chromium, as somebody would who sees it for the first time.

Started by the bed (main.rs) with what the node is; ends with 1 and a sentence where something is not as it has to be.
Screenshots of each page, light and dark, on a desk and on a phone, are kept where `--screenshots` says.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

PASSWORD = "correct horse battery staple"
SIZES = {"desk": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}
WALL = {"wall": {"width": 1920, "height": 1080}}


class Bed:
    """A node, a browser, and what was found."""

    def __init__(self, arguments, browser):
        self.base = arguments.base
        self.folder = pathlib.Path(arguments.folder)
        self.screenshots = pathlib.Path(arguments.screenshots)
        self.screenshots.mkdir(parents=True, exist_ok=True)
        self.browser = browser
        self.findings = []
        self.looked = 0

    def look(self, state, name, path, sizes=SIZES):
        """Keeps what a page looks like, and asks axe what is wrong with it."""
        for scheme in ("light", "dark"):
            for size, viewport in sizes.items():
                context = self.browser.new_context(
                    storage_state=state, color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
                page = context.new_page()
                said = []
                page.on("console", lambda message, said=said: said.append(message.text) if message.type == "error" else None)
                page.on("pageerror", lambda error, said=said: said.append(str(error)))
                page.goto(self.base + path)
                for image in page.locator("img").all():
                    if not image.evaluate("image => image.complete && image.naturalWidth > 0"):
                        self.findings.append(f"{path}: a picture is not there: {image.get_attribute('src')}")
                page.screenshot(path=self.screenshots / f"{name}-{scheme}-{size}.png", full_page=True)
                wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                if wide > 0:
                    self.findings.append(f"{path} is {wide} pixels wider than a {size}")
                for violation in Axe().run(page).response["violations"]:
                    if violation["impact"] in ("serious", "critical"):
                        where = [node["target"] for node in violation["nodes"][:3]]
                        self.findings.append(f"{path} ({scheme}, {size}): {violation['id']}: {violation['help']} {where}")
                # A page that is not there is looked at on purpose.
                expected = "404" if name == "not-found" else "\0"
                self.findings += [f"{path}: the browser says: {text}" for text in said if expected not in text]
                self.looked += 1
                context.close()


def send(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def planned(page, words, name):
    """What is shown before it is done, and that it is done then."""
    send(page, "Show the plan")
    expect(page.get_by_role("heading", name="What will be done")).to_be_visible()
    expect(page.locator(".plan ol")).to_contain_text(words)
    send(page, name)
    expect(page.locator(".said").first).to_be_visible()


def first_login(bed, page):
    page.goto(bed.base + "/")
    page.get_by_role("link", name="Make the first admin").click()
    code = pathlib.Path(page.locator("pre code").inner_text().removeprefix("cat ").strip()).read_text().strip()
    page.get_by_label("Code").fill(code)
    page.get_by_label("Name").fill("alice")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    send(page, "Make the first admin")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def sign_in(bed, page, name="alice"):
    page.goto(bed.base + "/login")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    send(page, "Sign in")
    expect(page.get_by_role("heading", name="Overview")).to_be_attached()


def make_pool(bed, page):
    page.goto(bed.base + "/new-pool")
    page.get_by_label("Name").fill("tank")
    page.get_by_label("Arrangement").select_option("raid5")
    page.get_by_label("Members", exact=False).fill("\n".join(str(bed.folder / f"m{number}.img") for number in range(3)))
    send(page, "Show the plan")
    # Nothing that was typed is lost when something is missing.
    expect(page.locator("#member_size-wrong")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("tank")
    page.get_by_label("Size of files that are made").fill("64MiB")
    planned(page, "open pool tank", "Make the pool")
    expect(page.get_by_role("main").get_by_role("link", name="tank").first).to_be_visible()


def make_volume(bed, page):
    page.goto(bed.base + "/new-volume")
    page.get_by_label("Name", exact=True).fill("db")
    page.get_by_label("Size").fill("32MiB")
    page.get_by_label("Alias").fill("Database of the shop")
    planned(page, "serve volume db", "Make the volume")
    expect(page.get_by_role("heading", level=1)).to_contain_text("serving")


def figures(page, graph):
    """What the first line of a graph was last, and the most that it was over the day."""
    data = page.evaluate("graph => fetch(`/v1/graphs/${graph}/day`).then((answer) => answer.json())", graph)
    return data["lines"][0].get("figures", {"last": 0, "most": 0})


def connect(bed, page, initiator, lab):
    """A session is seen on its page while the page is open, and the graph moves."""
    page.goto(bed.base + "/volumes/db")
    expect(page.locator("[data-live=users]")).to_contain_text("Nobody")
    url = page.locator("pre code", has_text="iscsi://").inner_text().strip()
    picture = page.get_by_role("img", name="Operations of volumes, volume db")
    # It comes to the open page as soon as there is something to be seen.
    expect(picture).to_be_visible(timeout=40000)
    drawn = "image => fetch(image.currentSrc).then((answer) => answer.text())"
    before = picture.evaluate(drawn)
    load = subprocess.Popen([*initiator, url], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        expect(page.locator("[data-live=users]")).to_contain_text("iqn.", timeout=15000)
        end = time.monotonic() + 60
        while figures(page, "volume_operations@db")["last"] < 10:
            assert time.monotonic() < end, "the graph does not move"
            time.sleep(1)
        # The picture has come again without the page.
        page.wait_for_function("picture => new URL(picture.currentSrc).searchParams.has('at')", arg=picture.element_handle(), timeout=30000)
        assert picture.evaluate(drawn) != before, "the picture does not move"
        page.goto(bed.base + "/initiators")
        expect(page.get_by_role("table", name="Sessions of")).to_contain_text("db")
        state = page.context.storage_state()
        bed.look(state, "initiators", "/initiators")
    finally:
        load.terminate()
        load.wait(10)
    subprocess.run([*lab, "--target", url], check=True, timeout=120, stdout=subprocess.DEVNULL)


def make_viewer(bed, page):
    """Somebody who may look, in a browser of his own."""
    page.goto(bed.base + "/settings/new-user")
    page.get_by_label("Name").fill("vera")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password again").fill(PASSWORD)
    send(page, "Make the user")
    expect(page.locator(".said").first).to_be_visible()
    other = bed.browser.new_context(viewport=SIZES["desk"]).new_page()
    other.set_default_timeout(15000)
    sign_in(bed, other, "vera")
    return other


def take_out_and_bring_back(bed, page, viewer):
    """What is done on one page is seen on another that is open."""
    viewer.goto(bed.base + "/alerts")
    expect(viewer.locator(".verdict")).to_contain_text("No limit is crossed")
    page.goto(bed.base + "/pools/tank/members/2/offline")
    planned(page, "take member 2 out", "Take it out")
    expect(viewer.locator(".verdict")).to_contain_text("1 alert is critical", timeout=60000)
    expect(viewer.locator(".alert")).to_contain_text("can lose no more")
    expect(viewer.locator("main").get_by_role("button")).to_have_count(0)
    expect(viewer.get_by_role("link", name="Mute")).to_have_count(0)
    page.goto(bed.base + "/pools/tank/members/2/online")
    planned(page, "back into slot 2", "Bring it back")
    expect(viewer.locator(".verdict")).to_contain_text("No limit is crossed", timeout=60000)


def see_the_alert(bed, page):
    """The file of member 1 was removed while the node stood still."""
    page.goto(bed.base + "/alerts")
    expect(page.locator(".verdict")).to_contain_text("1 alert is critical", timeout=60000)
    alert = page.locator(".alert")
    expect(alert).to_contain_text("can lose no more")
    state = page.context.storage_state()
    bed.look(state, "alerts-critical", "/alerts")
    page.goto(bed.base + "/")
    expect(page.locator(".verdict")).to_contain_text("critical", timeout=60000)
    expect(page.locator(".findings")).to_contain_text("Pool tank")
    bed.look(state, "overview-degraded", "/")
    bed.look(state, "overview-degraded", "/", WALL)
    bed.look(state, "pool-degraded", "/pools/tank")
    page.goto(bed.base + "/alerts")
    send(page, "I see to it (pool-degraded:tank)")
    expect(page.locator(".said")).to_contain_text("alice sees to pool-degraded:tank")
    expect(alert).to_contain_text("alice sees to it")
    page.get_by_role("link", name="Mute pool-degraded:tank").click()
    page.get_by_label("For how long").select_option("8 hours")
    bed.look(state, "mute", "/alerts/pool-degraded:tank/mute")
    send(page, "Mute it")
    expect(page.locator(".verdict")).to_contain_text("1 alert is muted")
    bed.look(state, "alerts-muted", "/alerts")
    send(page, "Unmute pool-degraded:tank")
    expect(page.locator(".verdict")).to_contain_text("1 alert is critical")


def replace(bed, page):
    page.goto(bed.base + "/")
    page.get_by_role("link", name="Open pool tank").click()
    page.get_by_role("link", name="Replace member 1").click()
    page.get_by_label("New file or disk").fill(str(bed.folder / "new.img"))
    planned(page, "put", "Replace it")
    page.goto(bed.base + "/")
    # It gets well on the open page, without being loaded again.
    expect(page.locator(".verdict")).to_contain_text("All is well", timeout=60000)
    page.goto(bed.base + "/alerts")
    expect(page.locator(".verdict")).to_contain_text("No limit is crossed", timeout=60000)
    page.goto(bed.base + "/events?text=tank")
    for words in ("member 1 of pool tank is out", "member 1 of pool tank was replaced", "member 1 of pool tank is rebuilt",
                  "pool-degraded:tank is critical", "alice sees to alert", "pool-degraded:tank is ok"):
        expect(page.get_by_role("table")).to_contain_text(words)


def without_scripts(bed, state):
    """Reading and forms work all the same."""
    context = bed.browser.new_context(storage_state=state, java_script_enabled=False)
    page = context.new_page()
    for path, words in (("/", "All is well"), ("/pools", "tank"), ("/pools/tank", "in sync"), ("/volumes", "db"),
                        ("/volumes/db", "iscsiadm"), ("/initiators", "Nobody"), ("/alerts", "write-cache-unsafe"), ("/events", "member 1 of pool tank is out"),
                        ("/graphs", "volume db"), ("/graphs/volume_operations%40db", "the last 24 hours"), ("/lab", "A load of one's own"),
                        ("/audit", "alice"), ("/settings", "Configuration")):
        page.goto(bed.base + path)
        expect(page.locator("main")).to_contain_text(words)
    page.goto(bed.base + "/events")
    page.get_by_label("Show", exact=True).select_option("warning and critical")
    page.get_by_label("with", exact=True).fill("M2.IMG")
    send(page, "Find")
    expect(page.get_by_role("row")).to_have_count(2)
    page.goto(bed.base + "/volumes/db/limit")
    page.get_by_label("Requests in a second").fill("5000")
    planned(page, "at most 5000 requests a second", "Set the limits")
    expect(page.locator("main")).to_contain_text("5000 requests/s")
    page.goto(bed.base + "/volumes/db/delete")
    page.get_by_label("Name of the volume").fill("no")
    send(page, "Show the plan")
    expect(page.locator("#confirm-wrong")).to_be_visible()
    context.close()


def by_keyboard(bed, page):
    """The way to the content, and a form, by the keyboard alone."""
    page.goto(bed.base + "/volumes")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="New volume")).to_be_focused()


def begin(bed, page):
    bed.look(None, "overview-new", "/")
    bed.look(None, "setup", "/setup")
    first_login(bed, page)
    state = page.context.storage_state()
    bed.look(state, "overview-empty", "/")
    bed.look(state, "new-pool", "/new-pool")
    make_pool(bed, page)


def go_on(bed, page, initiator, lab):
    bed.look(None, "login", "/login")
    sign_in(bed, page)
    state = page.context.storage_state()
    bed.look(state, "new-volume", "/new-volume")
    make_volume(bed, page)
    connect(bed, page, initiator, lab)
    take_out_and_bring_back(bed, page, make_viewer(bed, page))


def mend(bed, page):
    sign_in(bed, page)
    state = page.context.storage_state()
    see_the_alert(bed, page)
    replace(bed, page)
    by_keyboard(bed, page)
    page.goto(bed.base + "/lab")
    report = page.locator("tbody a").first.get_attribute("href")
    for name, path in (("overview", "/"), ("pools", "/pools"), ("pool", "/pools/tank"), ("volumes", "/volumes"),
                       ("volume", "/volumes/db"), ("alerts", "/alerts"), ("events", "/events"), ("events-bad", "/events?severity=warning&text=tank"),
                       ("graphs", "/graphs"), ("graph", "/graphs/volume_operations%40db"), ("lab", "/lab"), ("lab-report", report), ("delete-volume", "/volumes/db/delete"), ("audit", "/audit"),
                       ("settings", "/settings"), ("configuration", "/settings/configuration"),
                       ("new-user", "/settings/new-user"), ("replace", "/pools/tank/members/0/replace"),
                       ("not-found", "/pools/none")):
        bed.look(state, name, path)
    for name, path in (("overview", "/"), ("alerts", "/alerts"), ("graph", "/graphs/volume_operations%40db")):
        bed.look(state, name, path, WALL)
    without_scripts(bed, state)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("begin", "go-on", "mend"))
    parser.add_argument("--base", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--screenshots", required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--lab", default="[]", help="so too: it reads the volume, and keeps its report beside the node")
    parser.add_argument("--initiator", default="[]", help="a command in JSON, to which the address of a volume is added")
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        # The sandbox of chromium needs what root and containers do not have; the pages are our own.
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        bed = Bed(arguments, browser)
        page = browser.new_context(viewport=SIZES["desk"]).new_page()
        page.set_default_timeout(15000)
        begun = time.monotonic()
        if arguments.step == "begin":
            begin(bed, page)
        elif arguments.step == "mend":
            mend(bed, page)
        else:
            go_on(bed, page, json.loads(arguments.initiator), json.loads(arguments.lab))
        browser.close()
    print(f"{bed.looked} looks in {time.monotonic() - begun:.0f} s, {len(bed.findings)} findings")
    for finding in bed.findings:
        print(finding, file=sys.stderr)
    sys.exit(1 if bed.findings else 0)


main()
