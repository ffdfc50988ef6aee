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

    def look(self, state, name, path):
        """Keeps what a page looks like, and asks axe what is wrong with it."""
        for scheme in ("light", "dark"):
            for size, viewport in SIZES.items():
                context = self.browser.new_context(
                    storage_state=state, color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
                page = context.new_page()
                said = []
                page.on("console", lambda message, said=said: said.append(message.text) if message.type == "error" else None)
                page.on("pageerror", lambda error, said=said: said.append(str(error)))
                page.goto(self.base + path)
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


def sign_in(bed, page):
    page.goto(bed.base + "/login")
    page.get_by_label("Name").fill("alice")
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
    planned(page, "pool tank is opened", "Make the pool")


def make_volume(bed, page):
    page.goto(bed.base + "/new-volume")
    page.get_by_label("Name", exact=True).fill("db")
    page.get_by_label("Size").fill("32MiB")
    page.get_by_label("Alias").fill("Database of the shop")
    planned(page, "serve volume db", "Make the volume")
    expect(page.get_by_role("heading", level=1)).to_contain_text("serving")


def connect(bed, page, initiator):
    """A session is seen on its page while the page is open."""
    page.goto(bed.base + "/volumes/db")
    expect(page.locator("[data-live=users]")).to_contain_text("Nobody")
    url = page.locator("pre code", has_text="iscsi://").inner_text().strip()
    load = subprocess.Popen([*initiator, url], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        expect(page.locator("[data-live=users]")).to_contain_text("iqn.", timeout=15000)
        page.goto(bed.base + "/initiators")
        expect(page.get_by_role("table", name="Sessions of")).to_contain_text("db")
        state = page.context.storage_state()
        bed.look(state, "initiators", "/initiators")
    finally:
        load.terminate()
        load.wait(10)


def pull_and_replace(bed, page):
    page.goto(bed.base + "/pools/tank/members/1/offline")
    planned(page, "take member 1 out", "Take it out")
    page.goto(bed.base + "/")
    expect(page.locator(".verdict")).to_contain_text("warning")
    expect(page.locator(".findings")).to_contain_text("Pool tank")
    state = page.context.storage_state()
    bed.look(state, "overview-degraded", "/")
    bed.look(state, "pool-degraded", "/pools/tank")
    page.get_by_role("link", name="Open pool tank").click()
    page.get_by_role("link", name="Replace member 1").click()
    page.get_by_label("New file or disk").fill(str(bed.folder / "new.img"))
    planned(page, "put", "Replace it")
    page.goto(bed.base + "/")
    # It gets well on the open page, without being loaded again.
    expect(page.locator(".verdict")).to_contain_text("All is well", timeout=60000)


def without_scripts(bed, state):
    """Reading and forms work all the same."""
    context = bed.browser.new_context(storage_state=state, java_script_enabled=False)
    page = context.new_page()
    for path, words in (("/", "All is well"), ("/pools", "tank"), ("/pools/tank", "in sync"), ("/volumes", "db"),
                        ("/volumes/db", "iscsiadm"), ("/initiators", "Nobody"), ("/audit", "alice"), ("/settings", "Configuration")):
        page.goto(bed.base + path)
        expect(page.locator("main")).to_contain_text(words)
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


def go_on(bed, page, initiator):
    bed.look(None, "login", "/login")
    sign_in(bed, page)
    state = page.context.storage_state()
    bed.look(state, "new-volume", "/new-volume")
    make_volume(bed, page)
    connect(bed, page, initiator)
    pull_and_replace(bed, page)
    by_keyboard(bed, page)
    for name, path in (("overview", "/"), ("pools", "/pools"), ("pool", "/pools/tank"), ("volumes", "/volumes"),
                       ("volume", "/volumes/db"), ("delete-volume", "/volumes/db/delete"), ("audit", "/audit"),
                       ("settings", "/settings"), ("configuration", "/settings/configuration"),
                       ("new-user", "/settings/new-user"), ("replace", "/pools/tank/members/0/replace"),
                       ("not-found", "/pools/none")):
        bed.look(state, name, path)
    without_scripts(bed, state)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=("begin", "go-on"))
    parser.add_argument("--base", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--screenshots", required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
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
        else:
            go_on(bed, page, json.loads(arguments.initiator))
        browser.close()
    print(f"{bed.looked} looks in {time.monotonic() - begun:.0f} s, {len(bed.findings)} findings")
    for finding in bed.findings:
        print(finding, file=sys.stderr)
    sys.exit(1 if bed.findings else 0)


main()
