// SPDX-License-Identifier: MIT
// Input for the C++ compiler, with many templates to instantiate. It is compiled, not run.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int number> struct fibonacci {
    static constexpr long value = fibonacci<number - 1>::value + fibonacci<number - 2>::value;
};
template <> struct fibonacci<0> { static constexpr long value = 0; };
template <> struct fibonacci<1> { static constexpr long value = 1; };

template <typename... types> struct list {};
template <typename item, int count, typename... types> struct repeat_list {
    using type = typename repeat_list<item, count - 1, item, types...>::type;
};
template <typename item, typename... types> struct repeat_list<item, 0, types...> {
    using type = std::tuple<types...>;
};

template <int index> long visit_all(std::map<std::string, std::vector<long>> &map) {
    std::variant<int, std::string, std::vector<long>> value;
    if (index % 3 == 0) {
        value = index;
    } else if (index % 3 == 1) {
        value = std::to_string(index);
    } else {
        value = std::vector<long>(index, index);
    }
    std::visit(
        [&](auto &&held) {
            using type = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<type, std::vector<long>>) {
                map["vector"].insert(map["vector"].end(), held.begin(), held.end());
            } else if constexpr (std::is_same_v<type, std::string>) {
                map[held].push_back(index);
            } else {
                map["int"].push_back(held);
            }
        },
        value);
    if constexpr (index > 0) {
        return visit_all<index - 1>(map) + index;
    }
    return 0;
}

long entry(const std::string &text) {
    std::map<std::string, std::vector<long>> map;
    std::unordered_map<std::string, std::function<long(long)>> functions;
    long sum = visit_all<120>(map) + fibonacci<80>::value;
    sum += std::tuple_size<repeat_list<std::string, 150>::type>::value;
    functions["twice"] = [](long n) { return n * 2; };
    static const std::regex words("(\\w+)\\s+(\\d+)");
    for (std::sregex_iterator at(text.begin(), text.end(), words), end; at != end; ++at) {
        sum += functions["twice"](std::stol((*at)[2]));
    }
    for (auto &[name, list] : map) {
        std::sort(list.begin(), list.end(), std::greater<>());
        sum += static_cast<long>(name.size() + list.size());
    }
    return sum;
}
