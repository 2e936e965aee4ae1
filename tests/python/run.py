"""Runs test files of this folder and prints TAP, a line a test: run.py FILE..."""
import os
import sys
import traceback
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


class Tap(unittest.TestResult):
    number = 0

    def line(self, test, verdict, note="", text=""):
        self.number += 1
        print(f"{verdict} {self.number} - {test.id() if '<' not in test.id() else test.shortDescription()}{note}")
        for line in text.splitlines():
            print("# " + line)
        sys.stdout.flush()

    def addSuccess(self, test):
        self.line(test, "ok")

    def addSkip(self, test, reason):
        self.line(test, "ok", " # SKIP " + reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line(test, "not ok", text="".join(traceback.format_exception(*err)))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            print("# " + "".join(traceback.format_exception(*err)).replace("\n", "\n# "))

    def stopTest(self, test):
        if any(bad[0] is not test and getattr(bad[0], "test_case", None) is test for bad in self.failures + self.errors):
            self.line(test, "not ok")  # of its subtests
        super().stopTest(test)


def main():
    suite = unittest.TestSuite()
    for name in sys.argv[1:]:
        module = os.path.basename(name)[:-3]
        try:
            suite.addTests(unittest.defaultTestLoader.loadTestsFromName(module))
        except unittest.SkipTest as why:
            suite.addTest(unittest.FunctionTestCase(unittest.skip(str(why))(lambda: None), description=module))
    print(f"1..{suite.countTestCases()}")
    result = Tap()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
