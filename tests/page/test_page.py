"""The live page in a real browser, with a made-up market behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from skyband.serve.openapi import DOCUMENT
from tests.page import browser as browsers
from tests.page.conftest import PATIENCE, Watched
from tests.page.fake_api import PAGE, FakeServer, Market
from tests.test_serve import check

Visit = Callable[..., Page]
FIRST = "Communication services"
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "javascript:alert(3)"]

expect.set_options(timeout=PATIENCE)


def names(page: Page) -> list[str]:
    """The names on the board, from the first."""
    return page.locator("#rows .name").all_inner_texts()


def expect_names(page: Page, wanted: list[str]) -> None:
    """Wait until the board has these names, in this order."""
    expect(page.locator("#rows .name")).to_have_text(wanted)


def on_board(market: Market, at: int = -1, key: str = FIRST, query: str = "") -> list[str]:
    """The names that the board of a window has."""
    return [symbol for symbol, _ in market.ranked(query, key, market.windows[at])]


def never_answer(route: Route) -> None:
    """Hold a request for good."""


def in_hash(page: Page) -> dict[str, str]:
    """What the address of the page holds."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def wait_for_history(page: Page, windows: int) -> None:
    """Wait until the strip has so many windows."""
    expect(page.locator("#strip")).to_have_attribute("aria-valuemax", str(windows))


# ---- the board ------------------------------------------------------------------------------


def test_shows_the_newest_board(visit: Visit, market: Market) -> None:
    page = visit()
    expect_names(page, on_board(market))
    assert page.locator("#rows .score").first.inner_text() == next(
        f"{score:,.2f}" for _, score in market.ranked("", FIRST, market.windows[-1])
    )
    expect(page.locator("#board-heading")).to_have_text(FIRST)
    expect(page.locator("#pill")).to_have_text("Live")
    expect(page.locator("#columns th")).to_have_text(
        ["Rank", "Move", "symbol", "venue", "price", "trades", "Score"]
    )


def test_the_board_moves_when_a_window_comes(visit: Visit, market: Market) -> None:
    page = visit()
    before = on_board(market)
    last = before[-1]
    outside = next(name for name in market.symbols(FIRST) if name not in before)
    market.boost(outside, 50)
    market.boost(last, 20)
    market.step()
    after = on_board(market)
    expect_names(page, after)
    assert after[:2] == [outside, last]
    moves = page.locator("#rows .move")
    expect(moves.nth(0)).to_have_text("entered")
    expect(moves.nth(1)).to_contain_text(f"up {len(before) - 2}")
    expect(page.locator("#rows .move", has_text="down").first).to_be_visible()
    left = [name for name in before if name not in after]
    assert left
    expect(page.locator("#left-rows li")).to_contain_text([f"{name} was" for name in left])
    expect(page.locator("#announce")).to_have_text(f"New leader: {outside}")


def test_rows_glide_unless_motion_is_to_be_reduced(visit: Visit, market: Market) -> None:
    moving, still = visit(reduced_motion="no-preference"), visit()
    for page in (moving, still):
        page.evaluate(
            """() => {
                window.glides = 0;
                const animate = Element.prototype.animate;
                Element.prototype.animate = function (...how) {
                    window.glides += 1;
                    return animate.apply(this, how);
                };
            }"""
        )
    market.boost(on_board(market)[-1], 50)
    market.step()
    for page in (moving, still):
        expect_names(page, on_board(market))
    assert moving.evaluate("window.glides") > 1
    assert still.evaluate("window.glides") == 0


def test_cells_stay_readable_where_there_are_many(visit: Visit, market: Market) -> None:
    """As the columns of a real job: a moment, a long word, a number."""
    page = visit(viewport={"width": 1280, "height": 900})

    def widen(route: Route) -> None:
        answer = route.fetch()
        content = answer.json()
        for row in content["rows"]:
            row["cells"][2:] = ["2026-01-05 14:39:46.738", "Communication services", "1,234,567"]
        content["window"]["end"] = "2026-01-05T14:46:10.000Z"
        route.fulfill(response=answer, json=content)

    def refine(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace(":00Z", ":10.000Z"))

    page.route("**/api/windows*", refine)
    page.route("**/api/leaders*", widen)
    page.route("**/api/events*", never_answer)
    page.reload()
    page.wait_for_selector("#rows tr")
    moment = page.locator("#rows tr").first.locator("td.more").first
    expect(moment).to_have_text("14:39:46.738")
    expect(moment).to_have_attribute("title", "2026-01-05 14:39:46.738")
    tallest = page.evaluate(
        "Math.max(...Array.from(document.querySelectorAll('#rows tr'), (r) => r.offsetHeight))"
    )
    assert tallest < 90
    score, place = page.locator("#rows .score").first, page.locator("#board-scroll")
    edges = [each.bounding_box() for each in (score, place)]
    right, end = (box["x"] + box["width"] for box in edges if box)
    assert right <= end + 1  # in sight, though the table is wider than its place
    expect(page.locator("#window-words")).to_contain_text("14:46:10 UTC")


def test_provisional_then_final(visit: Visit, market: Market) -> None:
    page = visit()
    badge = page.locator("#badge")
    expect(badge).to_have_text("✓ final")
    market.open()
    expect(badge).to_have_text("◌ so far")
    expect(page.locator("#board-note")).to_contain_text("still open")
    market.revise()
    expect(badge).to_have_attribute("title", "Changed 1 time since it was first shown.")
    expect_names(page, on_board(market))
    market.finish()
    expect(badge).to_have_text("✓ final")
    expect(page.locator("#board-note")).to_be_hidden()
    expect_names(page, on_board(market))


def test_waits_for_the_first_window(visit: Visit, market: Market) -> None:
    market.windows.clear()
    page = visit(ready="#figures dd")
    expect(page.locator("#empty")).to_have_text("Waiting for the first window.")
    expect(page.locator("#pill")).to_have_text("Waiting for rows")
    market.step()
    expect_names(page, on_board(market))
    expect(page.locator("#empty")).to_be_hidden()
    assert set(page.locator("#rows .move").all_inner_texts()) == {""}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text(visit: Visit, market: Market, name: str) -> None:
    market.sectors = {name: [name, "ACME"]}
    market.queries = {name: name, "other": "words"}
    market.boost(name, 100)
    market.step()
    market.tell(
        notes=[name],
        state="failed",
        message=name,
        extra={name: 1},
        sinks=[{"name": name, "waiting": 1, "delivered": 0, "error": name}],
    )
    page = visit()
    expect_names(page, on_board(market, key=name, query=name))
    expect(page.locator("#board-heading")).to_have_text(f"{name} · {name}")
    expect(page.locator("#message")).to_contain_text(name)
    page.locator("#key").press("ArrowDown")
    expect(page.locator("#options li")).to_have_text([name])
    expect(page.locator("#chart .name", has_text=name[:8])).to_have_count(1)
    assert (
        page.evaluate("document.querySelectorAll('img, body script:not(:last-child)').length") == 0
    )
    assert page.evaluate("document.scripts.length") == 1


def test_says_how_many_rows_are_left_out(visit: Visit, market: Market) -> None:
    market.most_rows = 4
    page = visit()
    expect(page.locator("#rows tr")).to_have_count(4)
    expect(page.locator("#board-note")).to_contain_text("The first 4 rows of 10; 6 are left out.")


def test_says_that_earlier_changes_are_missing(visit: Visit, market: Market) -> None:
    market.complete = False
    page = visit()
    expect(page.locator("#board-note")).to_contain_text("since the page began")


def test_points_of_scores_stand_below_each_other(visit: Visit) -> None:
    page = visit(ready="#figures dd")
    texts = page.evaluate("alignedScores(['1,234.5', '12', '-7.125'].map((score) => ({ score })))")
    assert texts == ["1,234.500", "12.000", "-7.125"]
    for scores in (["1e+20", "2.5"], ["12", "7"], []):
        written = "alignedScores(" + json.dumps([{"score": score} for score in scores]) + ")"
        assert page.evaluate(written) == scores


# ---- the choice of a ranking ----------------------------------------------------------------


def test_chooses_a_key_by_keyboard(visit: Visit, market: Market) -> None:
    page = visit()
    box = page.get_by_role("combobox", name="Sector")
    box.press("ArrowDown")
    expect(page.locator("#options li")).to_have_text(market.keys())
    expect(box).to_have_attribute("aria-activedescendant", "option-0")
    for _ in range(3):
        box.press("ArrowDown")
    expect(box).to_have_attribute("aria-activedescendant", "option-3")
    box.press("Enter")
    expect_names(page, on_board(market, key="Energy"))
    expect(box).to_have_value("Energy")
    expect(box).to_have_attribute("aria-expanded", "false")
    assert json.loads(in_hash(page)["key"]) == ["Energy"]
    page.go_back()
    expect_names(page, on_board(market))
    expect(box).to_have_value(FIRST)


def test_escape_leaves_the_key_as_it_was(visit: Visit, market: Market) -> None:
    page = visit()
    box = page.get_by_role("combobox", name="Sector")
    box.fill("fin")
    expect(page.locator("#options li")).to_have_text(["Financials"])
    box.press("Escape")
    expect(box).to_have_value(FIRST)
    expect(page.locator("#popup")).to_be_hidden()
    assert names(page) == on_board(market)


def test_searches_among_ten_thousand_keys(visit: Visit, market: Market, server: FakeServer) -> None:
    market.accounts = 10_000
    page = visit()
    page.evaluate(
        """() => {
            window.most = 0;
            const list = document.getElementById("options");
            const count = () => { window.most = Math.max(window.most, list.children.length); };
            new MutationObserver(count).observe(list, { childList: true });
        }"""
    )
    box = page.get_by_role("combobox", name="Sector")
    box.click()
    expect(page.locator("#matches")).to_have_text("The first 100 of 10,011; type to find others.")
    box.fill("account 0")
    expect(page.locator("#matches")).to_contain_text("of 10,000")
    server.requests.clear()
    box.press_sequentially("4321")
    expect(page.locator("#options li")).to_have_text(["account 04321"])
    box.press("Enter")
    expect_names(page, on_board(market, key="account 04321"))
    assert page.evaluate("window.most") == 100
    assert json.loads(in_hash(page)["key"]) == ["account 04321"]


def test_enter_before_the_answer_takes_the_first_match(visit: Visit, market: Market) -> None:
    market.accounts = 10_000
    page = visit()
    box = page.get_by_role("combobox", name="Sector")
    box.fill("account 00077")
    box.press("Enter")
    expect_names(page, on_board(market, key="account 00077"))


def test_typing_after_a_choice_begins_another_search(visit: Visit, market: Market) -> None:
    page = visit()
    box = page.get_by_role("combobox", name="Sector")
    box.focus()
    for typed, key in (("ene", "Energy"), ("materials", "Materials")):
        page.keyboard.type(typed)
        expect(page.locator("#options li")).to_have_text([key])
        page.keyboard.press("Enter")
        expect_names(page, on_board(market, key=key))


def test_says_when_nothing_matches(visit: Visit) -> None:
    page = visit()
    page.get_by_role("combobox", name="Sector").fill("no such sector")
    expect(page.locator("#matches")).to_have_text("Nothing matches.")


def test_a_key_that_is_not_there(visit: Visit) -> None:
    page = visit('#key=["nowhere"]', ready="#empty:not([hidden])")
    expect(page.locator("#empty")).to_contain_text("There is no such ranking")
    box = page.get_by_role("combobox", name="Sector")
    box.fill("energy")
    box.press("Enter")
    page.wait_for_selector("#rows tr")


def test_a_workload_with_two_queries(visit: Visit, market: Market) -> None:
    market.queries = {"largest": "The largest trades", "newest": "The newest trades"}
    page = visit()
    expect_names(page, on_board(market, query="largest"))
    expect(page.locator("#words")).to_have_text("The largest trades")
    page.get_by_label("Query").select_option("newest")
    expect_names(page, on_board(market, query="newest"))
    expect(page.locator("#words")).to_have_text("The newest trades")
    assert in_hash(page)["query"] == "newest"
    market.step()
    expect_names(page, on_board(market, query="newest"))


def test_one_ranking_by_count_has_no_choice_and_no_clock(visit: Visit, market: Market) -> None:
    market.sectors = {"all": market.sectors[FIRST]}
    market.partitioned = market.timed = False
    page = visit()
    expect_names(page, on_board(market, key="all"))
    expect(page.locator("#choices")).to_be_hidden()
    expect(page.locator("#board-heading")).to_have_text("Board")
    expect(page.locator("#window-words")).to_have_text("39,000 – 40,000")
    wait_for_history(page, 40)
    page.locator("#strip").press("ArrowLeft")
    expect(page.locator("#window-words")).to_have_text("38,000 – 39,000")
    assert in_hash(page) == {"window": "38"}
    page.locator("#live").click()
    market.step()
    expect_names(page, on_board(market, key="all"))


# ---- time -----------------------------------------------------------------------------------


def test_walks_through_history(visit: Visit, market: Market) -> None:
    page = visit()
    wait_for_history(page, 40)
    strip = page.get_by_role("slider", name="Window shown")
    strip.press("ArrowLeft")
    expect_names(page, on_board(market, -2))
    expect(page.locator("#pill")).to_have_text("Looking back")
    strip.press("ArrowLeft")
    expect_names(page, on_board(market, -3))
    assert in_hash(page)["window"] == "37"
    strip.press("ArrowRight")
    expect_names(page, on_board(market, -2))
    strip.press("Home")
    expect_names(page, on_board(market, 0))
    expect(page.get_by_role("button", name="Earlier window")).to_be_disabled()
    page.get_by_role("button", name="Later window").click()
    expect_names(page, on_board(market, 1))
    market.step()
    wait_for_history(page, 41)
    expect_names(page, on_board(market, 1))
    page.get_by_role("button", name="Live", exact=True).click()
    expect_names(page, on_board(market))
    expect(page.locator("#pill")).to_have_text("Live")
    assert "window" not in in_hash(page)


def test_clicks_on_the_strip(visit: Visit, market: Market) -> None:
    page = visit()
    wait_for_history(page, 40)
    page.locator('#strip g[data-at="20"]').click()
    expect_names(page, on_board(market, 20))
    expect(page.locator("#strip")).to_have_attribute("aria-valuenow", "21")
    expect(page.locator("#window-words")).to_have_text("2026-01-05, 08:50 – 09:50 UTC")
    page.locator('#strip g[data-at="39"]').click()
    expect(page.locator("#pill")).to_have_text("Live")


def test_the_newest_by_keyboard_is_live_again(visit: Visit, market: Market) -> None:
    page = visit()
    wait_for_history(page, 40)
    strip = page.locator("#strip")
    strip.press("PageDown")
    expect_names(page, on_board(market, -11))
    strip.press("End")
    expect(page.locator("#live")).to_have_attribute("aria-pressed", "true")
    market.step()
    expect_names(page, on_board(market))


def test_a_request_that_is_superseded_is_aborted(visit: Visit, market: Market) -> None:
    page = visit()
    wait_for_history(page, 40)
    page.route("**/api/leaders*window=38", never_answer)
    with page.expect_event("requestfailed") as aborted:
        page.locator("#strip").press("ArrowLeft")
        page.locator("#strip").press("ArrowLeft")
    assert "window=38" in aborted.value.url
    expect_names(page, on_board(market, -3))


def test_a_long_history_has_a_strip_that_fits(visit: Visit, market: Market) -> None:
    market.step(400)
    page = visit(viewport={"width": 360, "height": 740})
    wait_for_history(page, 360)
    assert page.locator("#strip g").count() < 60
    page.locator("#strip").press("Home")
    expect_names(page, on_board(market, 0))
    expect(page.locator("#strip g.now")).to_have_attribute("data-at", "0")


def test_a_link_to_a_window_keeps_it(visit: Visit, market: Market) -> None:
    page = visit('#key=["Energy"]&window=5&chart=scores')
    expect_names(page, on_board(market, 5, "Energy"))
    expect(page.locator("#scores")).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect_names(page, on_board(market, 5, "Energy"))
    assert in_hash(page) == {"key": '["Energy"]', "window": "5", "chart": "scores"}


def test_a_window_that_is_not_kept_any_more(visit: Visit, market: Market) -> None:
    page = visit("#window=9999")
    expect(page.locator("#message")).to_have_text(
        "That window is not kept any more; this is the newest."
    )
    expect_names(page, on_board(market))


def test_the_chart_shows_ranks_or_scores(visit: Visit, market: Market) -> None:
    page = visit()
    wait_for_history(page, 40)
    picture = page.locator("#chart svg")
    expect(picture).to_have_attribute("aria-label", re.compile(r"^Ranks of \d+ leaders"))
    expect(picture).to_have_attribute("aria-label", re.compile(", ".join(on_board(market)[:5])))
    expect(page.locator("#chart .first .name")).to_have_text(on_board(market)[0])
    page.get_by_role("button", name="Scores").click()
    expect(picture).to_have_attribute("aria-label", re.compile(r"^Scores of \d+ leaders"))
    assert in_hash(page)["chart"] == "scores"
    page.get_by_text("As a table").click()
    leader, score = market.ranked("", FIRST, market.windows[-1])[0]
    row = page.locator("#chart-table tr", has=page.get_by_role("rowheader", name=leader))
    expect(row.locator("td").last).to_have_text(f"{score:,.0f}")


def test_windows_of_days_are_legible(visit: Visit, market: Market) -> None:
    market.size = market.slide = timedelta(days=1)
    page = visit()
    wait_for_history(page, 40)
    expect(page.locator("#window-words")).to_have_text("2026-02-12 09:30 – 2026-02-13 09:30 UTC")
    expect(page.locator("#chart .axis").last).to_have_text("02-13 09:30")
    expect(page.locator("#latest")).to_contain_text("2026-02-13 09:30 UTC")
    page.get_by_text("As a table").click()
    expect(page.locator("#chart-table th").nth(1)).to_have_text("02-09 09:30")


def test_windows_over_midnight_are_legible(visit: Visit, market: Market) -> None:
    market.step(835)
    page = visit()
    wait_for_history(page, 360)
    expect(page.locator("#window-words")).to_have_text("2026-01-05 23:04 – 2026-01-06 00:04 UTC")
    expect(page.locator("#chart .axis").first).to_contain_text("01-05 23:")
    expect(page.locator("#chart .axis").last).to_have_text("01-06 00:04")


# ---- the job --------------------------------------------------------------------------------


def test_tells_the_health_of_the_job(visit: Visit, market: Market) -> None:
    page = visit()
    expect(page.locator("#figures")).to_contain_text("10:09:00")
    expect(page.locator("#figures")).to_contain_text("2.4 s")
    expect(page.locator("#figures")).to_contain_text("412 ms")
    expect(page.locator("#sinks")).to_contain_text("postgresql:boards is behind: 3 batches wait.")
    market.tell(
        late=12_345,
        lag_seconds=300.0,
        sinks=[
            {"name": "redis:boards", "waiting": 2, "delivered": 3, "error": "the server refused"}
        ],
        notes=["A batch took longer than its trigger."],
        extra={"lost_rows": 7},
    )
    expect(page.locator("#counts .noted", has_text="Late")).to_contain_text("12,345")
    expect(page.locator("#figures")).to_contain_text("5 min")
    expect(page.locator("#sinks")).to_have_text(
        re.compile("redis:boards cannot be written: the server refused")
    )
    expect(page.locator("#notes")).to_have_text("A batch took longer than its trigger.")
    expect(page.locator("#counts")).to_contain_text("lost rows")
    page.get_by_text("How it is computed").click()
    expect(page.locator("#explain")).to_contain_text("one hour, sliding by one minute")


def test_what_the_job_is_is_read_again_once_the_job_knows_it(
    visit: Visit, server: FakeServer
) -> None:
    page = visit()

    def early(route: Route) -> None:
        answer = route.fetch()
        content = answer.json() | {"described": False, "explain": []}
        content["queries"][0]["words"] = ""
        route.fulfill(response=answer, json=content)

    page.route("**/api/info", early, times=1)
    page.reload()
    expect(page.locator("#words")).to_have_text(server.market.queries[""])
    page.wait_for_selector("#rows tr")


def test_says_that_the_job_failed(visit: Visit, market: Market) -> None:
    page = visit()
    market.tell(state="failed", message="The disk is full.")
    expect(page.locator("#message")).to_have_text("The job has failed: The disk is full.")
    expect(page.locator("#pill")).to_have_text("Failed")
    market.end("The disk is full.")
    expect(page.get_by_role("button", name="Connect again")).to_be_visible()
    expect(page.locator("#message")).to_have_text("The job has failed: The disk is full.")
    assert names(page) == on_board(market)


def test_says_that_the_job_ended(visit: Visit, market: Market) -> None:
    page = visit()
    market.tell(state="ended", message="All rows are read.")
    market.end("All rows are read.")
    expect(page.get_by_role("button", name="Connect again")).to_be_visible()
    expect(page.locator("#message")).to_have_text("The job has ended: All rows are read.")
    expect(page.locator("#pill")).to_have_text("Ended")
    market.ended = None
    market.health.clear()
    market.step()
    page.get_by_role("button", name="Connect again").click()
    expect(page.locator("#pill")).to_have_text("Live")
    expect_names(page, on_board(market))


def test_the_connection_is_lost_and_comes_back(
    visit: Visit, market: Market, server: FakeServer, watched: Watched
) -> None:
    page = visit()
    watched.expects_refusals = True
    server.stop()
    message = page.locator("#message")
    expect(message).to_have_text(
        re.compile(
            r"^The connection is lost; trying again\. What you see is as of \d\d:\d\d:\d\d\.$"
        )
    )
    expect(page.locator("#pill")).to_have_text("Connection lost")
    market.step()
    server.start()
    expect(message).to_have_text("The connection is back.")
    expect(page.locator("#pill")).to_have_text("Live")
    expect_names(page, on_board(market))
    wait_for_history(page, 41)


def test_says_that_one_is_not_signed_in(visit: Visit, watched: Watched) -> None:
    page = visit()
    watched.expects_refusals = True
    page.route("**/api/keys*", lambda route: route.fulfill(status=401, body="{}"))
    page.get_by_role("combobox", name="Sector").press("ArrowDown")
    expect(page.locator("#message")).to_contain_text("You are not signed in any more.")


def test_an_expired_token_is_not_a_lost_connection(
    visit: Visit, market: Market, server: FakeServer, watched: Watched
) -> None:
    page = visit()
    watched.expects_refusals = True
    page.route("**/api/**", lambda route: route.fulfill(status=401, body="no"))
    server.stop()  # readers come back with a token that another run of the job does not know
    server.start()
    expect(page.locator("#pill")).to_have_text("Signed out")
    message = page.locator("#message")
    expect(message).to_contain_text("You are not signed in any more")
    expect(message).to_contain_text("Open the link that the job printed again.")
    page.unroute("**/api/**")
    market.step()
    expect(page.locator("#pill")).to_have_text("Live")
    expect_names(page, on_board(market))


def test_tells_of_batches_that_were_missed(visit: Visit, market: Market) -> None:
    page = visit()
    expect(page.locator("#counts")).not_to_contain_text("missed")
    market.tell(missed_batches=3, notes=["3 batches were over before they were looked at"])
    expect(page.locator("#counts .noted", has_text="Batches missed")).to_contain_text("3")
    expect(page.locator("#notes")).to_contain_text("3 batches were over")


def test_the_made_up_server_answers_as_the_real_one(server: FakeServer, market: Market) -> None:
    market.open()
    missing = {"key": '["nowhere"]'}
    paths = [("info", {}), ("keys", {}), ("health", {})]
    paths += [("leaders", {}), ("leaders", missing), ("leaders", {"window": "never"})]
    paths += [("windows", {}), ("windows", missing), ("windows", {"window": "3"})]
    for path, parameters in paths:
        answer = httpx.get(f"{server.url}api/{path}", params=parameters, trust_env=False)
        assert answer.status_code == 200
        described = DOCUMENT["paths"][f"/api/{path}"]["get"]["responses"]["200"]["content"]
        check(answer.json(), described["application/json"]["schema"], path)


def test_lag_grows_while_no_batch_ends(visit: Visit, market: Market) -> None:
    page = visit()
    expect(page.locator("#figures")).to_contain_text("2.4 s")
    market.passing = {"lag_seconds": 61.0, "rows_per_second": 7.0, "readers": 41}
    market.changed()
    expect(page.locator("#figures")).to_contain_text("61.0 s")
    expect(page.locator("#figures")).to_contain_text("7")
    expect(page.locator("#job-state")).to_have_text("41 are watching")


def test_a_connection_that_died_without_a_word_is_made_anew(
    visit: Visit, market: Market, server: FakeServer
) -> None:
    page = visit(own_time=True)
    market.step()
    expect_names(page, on_board(market))  # since then, nothing is heard
    wait_for_history(page, 41)
    server.mute = True
    page.clock.fast_forward(20_000)
    expect(page.locator("#pill")).to_have_text("Live")
    page.clock.fast_forward(30_000)
    expect(page.locator("#pill")).to_have_text("Connection lost")
    server.mute = False
    market.step()
    expect(page.locator("#pill")).to_have_text("Live")
    expect_names(page, on_board(market))


def test_a_display_on_a_wall_comes_back_by_itself(visit: Visit, market: Market) -> None:
    page = visit(own_time=True)
    market.tell(state="ended", message="All rows are read.")
    market.end("All rows are read.")
    expect(page.locator("#pill")).to_have_text("Ended")
    with page.expect_request("**/api/events*"):
        page.clock.fast_forward(31_000)  # the job says once more that it has ended
    expect(page.locator("#message")).to_have_text("The job has ended: All rows are read.")
    market.ended = None
    market.health.clear()
    market.step()
    page.clock.fast_forward(31_000)
    expect(page.locator("#pill")).to_have_text("Live")
    expect_names(page, on_board(market))


def test_a_browser_that_calls_itself_offline_is_not_believed(visit: Visit) -> None:
    page = visit()
    with page.expect_response("**/api/health"):
        page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator("#pill")).to_have_text("Live")
    expect(page.locator("#banner")).to_be_hidden()


def test_the_past_is_not_fetched_with_each_revision(
    visit: Visit, market: Market, server: FakeServer
) -> None:
    page = visit(own_time=True)
    wait_for_history(page, 40)
    page.clock.pause_at(page.evaluate("Date.now() + 20000"))
    market.open()
    # a new window is looked at without waiting
    wait_until(page, "past.windows.at(-1).id === '40' && !pastLoading")
    server.requests.clear()
    for _ in range(20):
        market.revise()
        wait_until(page, f"board.window.revision === {market.windows[-1].revision}")
    assert not any("/api/windows" in path for path in server.requests)
    with page.expect_response("**/api/windows*"):
        page.clock.run_for(2_100)


def wait_until(page: Page, condition: str) -> None:
    """Wait until something holds of the page's own variables, though its time stands still."""
    while not page.evaluate(condition):
        page.wait_for_timeout(10)


# ---- how it looks ---------------------------------------------------------------------------


def test_dark_and_light(visit: Visit) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(color_scheme="light"), visit(color_scheme="dark")
    bright, dim = light.evaluate(paper), dark.evaluate(paper)
    assert bright != dim
    switch = light.get_by_role("button", name="Colours")
    switch.click()
    expect(switch).to_have_text("Colours: light")
    assert light.evaluate(paper) == bright
    switch.click()
    expect(switch).to_have_text("Colours: dark")
    assert light.evaluate(paper) == dim
    light.reload()
    expect(switch).to_have_text("Colours: dark")
    assert light.evaluate(paper) == dim


def test_colours_switch_where_nothing_may_be_stored(visit: Visit) -> None:
    page = visit(
        first="""Object.defineProperty(window, "localStorage", {
            get() { throw new DOMException("forbidden", "SecurityError"); },
        });"""
    )
    switch = page.get_by_role("button", name="Colours")
    switch.click()
    expect(switch).to_have_text("Colours: light")


@pytest.mark.parametrize("width", [380, 1280])
def test_bars_are_as_long_as_scores_are_large(visit: Visit, market: Market, width: int) -> None:
    market.open()  # whose rows have a line of their own above them
    page = visit(viewport={"width": width, "height": 740})
    wait_for_history(page, 41)
    drawn = page.evaluate(
        """Array.from(document.querySelectorAll("#rows tr"), (row) => [
            Number(row.querySelector(".score").textContent.replaceAll(",", "")),
            row.querySelector(".bar").getBoundingClientRect().width,
            getComputedStyle(row.querySelector(".more")).paddingRight,
        ])"""
    )
    best, longest, space = drawn[0]
    assert all(abs(bar / longest - score / best) < 0.02 for score, bar, _ in drawn)
    assert {each for _, _, each in drawn} == {space} != {"0px"}
    expect(page.locator("#strip-words")).to_be_visible()
    expect(page.locator("#strip title").last).to_contain_text("so far, best score ")


@pytest.mark.parametrize("width", [360, 700, 1100, 1920])
def test_never_scrolls_sideways(visit: Visit, market: Market, width: int) -> None:
    market.sectors[FIRST] = ["A" * 60, "a name of many words " * 6, *market.sectors[FIRST]]
    market.boost("A" * 60, 1e9)
    market.step()
    page = visit(viewport={"width": width, "height": 740})
    wait_for_history(page, 41)
    wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide == 0


def test_keyboard_focus_is_seen_and_reaches_everything(visit: Visit) -> None:
    page = visit()
    wait_for_history(page, 40)
    reached = []
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", reached[-1]
    wanted = ["skip", "theme", "key", "earlier", "strip", "live", "ranks", "scores"]
    assert reached == [*wanted, "SUMMARY", "SUMMARY"]


def test_one_style_one_script_and_nothing_inline() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"<style\b", text)) == len(re.findall(r"<script\b", text)) == 1
    assert not re.search(r"<[^>]+\s(style|on\w+)=", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text)
    addresses = set(re.findall(r"https?://[^\s'\"]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_without_a_browser_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SKYBAND_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(pytest.fail.Exception) as failed:
        browsers.chromium()
    words = "There is no Chromium: apt install chromium on Debian, or npm."
    assert str(failed.value) == words
    with pytest.raises(pytest.fail.Exception, match=r"no axe-core: install npm \(Node\.js\)"):
        browsers.axe()


SCHEMES = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}


@pytest.mark.parametrize("look", SCHEMES)
def test_axe_finds_nothing(visit: Visit, market: Market, look: str) -> None:
    checker = browsers.axe()
    market.queries = {"largest": "The largest trades", "newest": "The newest trades"}
    market.boost("MICA", 3)
    market.open()
    market.tell(state="failed", message="The disk is full.", notes=["A note."], late=4)
    page = visit(bypass_csp=True, **SCHEMES[look])
    wait_for_history(page, 41)
    page.get_by_text("As a table").click()
    page.get_by_text("How it is computed").click()
    page.evaluate(checker)
    assert violations(page) == []
    page.locator("#strip").press("ArrowLeft")
    expect(page.locator("#badge")).to_have_text("✓ final")
    page.get_by_role("button", name="Scores").click()
    page.get_by_role("combobox", name="Sector").press("ArrowDown")
    expect(page.locator("#options li")).to_have_count(11)
    assert violations(page) == []


def violations(page: Page) -> list[Any]:
    """What axe finds, and where."""
    return page.evaluate(
        """async () => {
            const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];
            const found = await axe.run(document, { runOnly: { type: "tag", values: tags } });
            return found.violations.map((each) => [
                each.id,
                each.nodes.map((node) => [node.target.join(" "), node.failureSummary]),
            ]);
        }"""
    )
