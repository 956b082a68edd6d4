"""A page in the browser, in the words of a user."""

from selenium.common.exceptions import JavascriptException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from harness.waiting import wait_until

# The page may see that the controller is gone, and Chromium writes that into the console by itself.
NETWORK = ("net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED", "net::ERR_CONNECTION_RESET", "net::ERR_EMPTY_RESPONSE", "status of 50")


class Page:
    def __init__(self, driver, service, width, dark):
        self.driver, self.service, self.may_lose, self.may_refuse = driver, service, False, False
        driver.get("about:blank")
        driver.get_log("browser")
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def open(self, token):
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.service.url, "storageTypes": "all"})
        self.driver.get(f"{self.service.url}/#token={token}" if token else f"{self.service.url}/")
        if token:
            wait_until(lambda: "#token" not in self.driver.current_url, "the token leaves the address")
        # A reload would lose this.
        self.driver.execute_script("window.marker = 1")

    def go(self, address):
        self.driver.execute_script("location.hash = arguments[0]", f"#/{address}")

    @property
    def address(self):
        return self.driver.execute_script("return location.hash")

    @property
    def text(self):
        return self.driver.execute_script("return document.body.innerText")

    def reads(self, *texts):
        """Waits until all texts are on the screen."""
        wait_until(lambda: all(text in self.text for text in texts), lambda: texts)

    def reads_not(self, text):
        wait_until(lambda: text not in self.text, f"no {text!r}")

    def find(self, selector, containing=""):
        """Waits for a visible element with this text."""

        def look():
            try:
                for element in self.driver.find_elements(By.CSS_SELECTOR, selector):
                    if element.is_displayed() and containing in element.text:
                        return element
            except StaleElementReferenceException:
                pass
            return None

        return wait_until(look, f"{selector} with {containing!r}")

    def count(self, selector):
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def click(self, selector, containing=""):
        def attempt():
            try:
                self.find(selector, containing).click()
            except WebDriverException as error:
                # Drawn anew between the look and the click.
                if "stale" in error.msg or "intercepted" in error.msg or "not interactable" in error.msg:
                    return False
                raise
            return True

        wait_until(attempt, f"a click on {selector}")

    def press(self, *keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def waits(self, script, what):
        """Waits until a script gives something true."""

        def look():
            try:
                return self.driver.execute_script(script)
            except JavascriptException:
                return None

        return wait_until(look, what)

    def was_not_reloaded(self):
        assert self.run("return window.marker") == 1, "the page was loaded anew"

    def answer(self, yes):
        """Answers the question of a dialog, and returns its text."""
        text = self.find("dialog").text
        self.click("dialog button", yes)
        wait_until(lambda: not self.count("dialog"), "the dialog closes")
        return text

    def errors(self):
        entries = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        allowed = (NETWORK if self.may_lose else ()) + (("status of 401",) if self.may_refuse else ())
        return [entry for entry in entries if not any(word in entry for word in allowed)]
